# SPDX-License-Identifier: Apache-2.0
"""The datapath library, seen from Python.

The binding is cffi in ABI mode: no compiler at install time, one shared
library to deploy. The library carries the text of its own header as a
string, so there is one contract for C and Python and it cannot drift.
"""

import enum
import errno
import ipaddress
import os
import threading
import typing

import cffi

API_VERSION = 1
LIBRARY = 'liboctavia_xdp.so.0'
LIBRARY_VARIABLE = 'OCTAVIA_XDP_LIBRARY'

PROTOCOLS = {'TCP': 6, 'UDP': 17}
PROTOCOL_NAMES = {number: name for name, number in PROTOCOLS.items()}


class DatapathError(OSError):
    """The library refused; errno and text are its own."""

    def __init__(self, number: int, text: str):
        super().__init__(number, text or os.strerror(number))

    @property
    def text(self) -> str:
        return self.strerror


class Key(typing.NamedTuple):
    address: str
    protocol: str
    port: int


class Member(typing.NamedTuple):
    """A wanted member; check 0 means not monitored."""

    address: str
    weight: int = 1
    check: int = 0
    admin_up: bool = True


class Counters(typing.NamedTuple):
    packets: int
    bytes: int
    flows: int


class MemberState(typing.NamedTuple):
    address: str
    weight: int
    check: int
    admin_up: bool
    healthy: bool
    known: bool
    counters: Counters


class Service(typing.NamedTuple):
    key: Key
    index: int
    slots: int
    members: int
    enabled: int
    generation: int
    counters: Counters


class Info(typing.NamedTuple):
    layout: int
    services_max: int
    members_max: int
    slots_max: int
    services: int
    members: int
    map_bytes: int


class Outcome(enum.IntEnum):
    """What happened to a packet; see octavia_xdp.h."""

    PASS = 0
    FORWARDED = 1
    DROP_FRAGMENT = 2
    DROP_MALFORMED = 3
    DROP_NO_MEMBER = 4
    DROP_NO_NEXT_HOP = 5
    DROP_TOO_BIG = 6
    DROP_NO_ROOM = 7
    DROP_INTERNAL = 8


class Library:
    """The loaded shared library and its parsed header."""

    def __init__(self, path: str | None = None):
        path = path or os.environ.get(LIBRARY_VARIABLE) or LIBRARY
        self.ffi = cffi.FFI()
        self.ffi.cdef('extern const char oxp_api_header[];')
        header = self.ffi.string(
            self.ffi.dlopen(path).oxp_api_header).decode()
        self.ffi = cffi.FFI()
        self.ffi.cdef(header)
        self.api = self.ffi.dlopen(path)
        if self.api.OXP_API_VERSION != API_VERSION:
            raise DatapathError(
                errno.EPROTO,
                f'{path} has interface version {self.api.OXP_API_VERSION}, '
                f'this package needs {API_VERSION}')

    def address(self, text: str):
        parsed = ipaddress.ip_address(text)
        packed = parsed.packed
        if parsed.version == 4:
            packed = bytes(10) + b'\xff\xff' + packed
        return self.ffi.new('struct oxp_address *', (packed,))

    def key(self, key: Key):
        try:
            protocol = PROTOCOLS[key.protocol]
        except KeyError:
            raise DatapathError(
                errno.EPROTONOSUPPORT,
                f'protocol {key.protocol} is not supported') from None
        return self.ffi.new(
            'struct oxp_key *',
            (self.address(key.address)[0], key.port, protocol))

    def maglev(self, members: typing.Mapping[str, int],
               slots: int) -> list[str | None]:
        """The member's address of each slot, from {address: weight}."""
        count = len(members)
        addresses = self.ffi.new('struct oxp_address[]', count)
        names = list(members)
        for index, name in enumerate(names):
            addresses[index] = self.address(name)[0]
        weights = self.ffi.new('uint16_t[]', list(members.values()))
        out = self.ffi.new('uint16_t[]', slots)
        status = self.api.oxp_maglev_build(
            addresses, weights, count, slots, out)
        if status < 0:
            raise DatapathError(-status, '')
        return [None if index == self.api.OXP_NO_MEMBER else names[index]
                for index in self.ffi.unpack(out, slots)]


def _text(address) -> str:
    packed = bytes(address.bytes)
    parsed = ipaddress.IPv6Address(packed)
    return str(parsed.ipv4_mapped or parsed)


def _key(key) -> Key:
    return Key(_text(key.vip), PROTOCOL_NAMES[key.protocol], key.port)


def _counters(counters) -> Counters:
    return Counters(counters.packets, counters.bytes, counters.flows)


def _mac(text: str | None) -> bytes:
    return bytes.fromhex(text.replace(':', '')) if text else bytes(6)


class Datapath:
    """The node's forwarding state in the kernel.

    Opens what is pinned in `pin_directory` or, with `create`, loads and pins
    it. Sizes matter only at creation; `info()` tells those in force.
    Closing it (or dying) changes nothing in the kernel.
    """

    def __init__(self, pin_directory: str, lock_file: str, *,
                 create: bool = False, services_max: int = 0,
                 members_max: int = 0, slots_max: int = 0,
                 library: str | Library | None = None):
        if not isinstance(library, Library):
            library = Library(library)
        self.library = library
        self._ffi = library.ffi
        self._api = library.api
        self._local = threading.local()
        directory = self._ffi.new('char[]', os.fsencode(pin_directory))
        lock = self._ffi.new('char[]', os.fsencode(lock_file))
        options = self._ffi.new('struct oxp_options *', {
            'pin_directory': directory, 'lock_file': lock,
            'services_max': services_max, 'members_max': members_max,
            'slots_max': slots_max, 'create': create})
        node = self._ffi.new('struct oxp_node **')
        self._node = None
        self._check(self._api.oxp_open(options, node, self._error))
        self._node = node[0]

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def close(self):
        node, self._node = self._node, None
        if node is not None:
            self._api.oxp_close(node)

    @property
    def _error(self):
        # One buffer per thread: cffi releases the GIL during calls.
        try:
            return self._local.error
        except AttributeError:
            self._local.error = self._ffi.new(
                'char[]', self._api.OXP_ERROR_LENGTH)
            return self._local.error

    def _check(self, status: int) -> int:
        if status < 0:
            text = self._ffi.string(self._error).decode(errors='replace')
            raise DatapathError(-status, text)
        return status

    def _call(self, name: str, *arguments) -> int:
        if self._node is None:
            raise DatapathError(errno.EBADF, 'the datapath is closed')
        self._error[0] = b'\0'
        return self._check(getattr(self._api, name)(
            self._node, *arguments, self._error))

    def _array(self, name: str, kind: str, *arguments, guess: int = 64):
        """Call a function that fills an array, again if it did not fit."""
        capacity = guess
        while True:
            out = self._ffi.new(f'{kind}[]', capacity)
            count = self._call(name, *arguments, out, capacity)
            if count <= capacity:
                return out, count
            capacity = count

    def info(self) -> Info:
        out = self._ffi.new('struct oxp_info *')
        self._call('oxp_info', out)
        return Info(*(getattr(out, field) for field in Info._fields))

    def destroy(self):
        """End forwarding: detach everything and remove the pins."""
        self._call('oxp_destroy')

    def attach(self, ifindex: int):
        """Attach to an interface of the caller's network namespace.

        If it is attached already, the program is replaced by the library's
        own one without losing a packet.
        """
        self._call('oxp_attach', ifindex)

    def detach(self, ifindex: int):
        self._call('oxp_detach', ifindex)

    def set_uplink(self, own_mac: str, gateway_mac: str | None,
                   outer_source: str, mtu: int):
        """Without a gateway's MAC packets to VIPs are dropped, counted."""
        self._call('oxp_set_uplink', _mac(own_mac), _mac(gateway_mac),
                   self.library.address(outer_source), mtu)

    def set_service(self, key: Key, members: typing.Iterable[Member],
                    slots: int = 0) -> bool:
        """Make the service exist with exactly these members.

        Health already known of members that stay is kept. Returns whether
        anything changed.
        """
        wanted = list(members)
        out = self._ffi.new('struct oxp_member[]', len(wanted))
        for member, entry in zip(wanted, out, strict=True):
            entry.address = self.library.address(member.address)[0]
            entry.check = member.check
            entry.weight = member.weight
            entry.admin_up = member.admin_up
        changed = self._ffi.new('uint8_t *')
        self._call('oxp_service_set', self.library.key(key), slots, out,
                   len(wanted), changed)
        return bool(changed[0])

    def delete_services(self, keys: typing.Iterable[Key]) -> int:
        """Returns how many of them existed; many at once cost as one."""
        wanted = list(keys)
        out = self._ffi.new('struct oxp_key[]', len(wanted))
        for index, key in enumerate(wanted):
            out[index] = self.library.key(key)[0]
        return self._call('oxp_service_delete', out, len(wanted))

    def delete_service(self, key: Key) -> bool:
        return bool(self.delete_services([key]))

    def _service(self, out) -> Service:
        return Service(_key(out.key), out.index, out.slots, out.members,
                       out.enabled, out.generation, _counters(out.counters))

    def services(self) -> list[Service]:
        out, count = self._array('oxp_services', 'struct oxp_service')
        return [self._service(out[index]) for index in range(count)]

    def generations(self) -> dict[int, int]:
        """Generation of each service's table, by the service's index."""
        out, count = self._array('oxp_services', 'struct oxp_service',
                                 guess=1024)
        return {one.index: one.generation for one in out[0:count]}

    def service(self, key: Key) -> Service | None:
        out = self._ffi.new('struct oxp_service *')
        try:
            self._call('oxp_service', self.library.key(key), out)
        except DatapathError as error:
            if error.errno == errno.ENOENT:
                return None
            raise
        return self._service(out)

    def members(self, key: Key) -> list[MemberState]:
        out, count = self._array(
            'oxp_service_members', 'struct oxp_member_state',
            self.library.key(key))
        return [MemberState(
            _text(one.address), one.weight, one.check, bool(one.admin_up),
            bool(one.healthy), bool(one.known), _counters(one.counters))
            for one in out[0:count]]

    def known_checks(self) -> set[int]:
        """Checks whose result some table already knows."""
        services, count = self._array('oxp_services', 'struct oxp_service')
        known = set()
        for service in services[0:count]:
            try:
                out, members = self._array(
                    'oxp_service_members', 'struct oxp_member_state',
                    self._ffi.addressof(service.key))
            except DatapathError as error:
                if error.errno != errno.ENOENT:
                    raise
                continue
            known.update(one.check for one in out[0:members] if one.known)
        return known

    def _generation(self, key: Key) -> int:
        out = self._ffi.new('struct oxp_service *')
        self._call('oxp_service', self.library.key(key), out)
        return out.generation

    def table(self, key: Key) -> list[str | None]:
        """The member's address of each slot."""
        generation = None
        # Until members and slots are those of one table.
        while generation != (generation := self._generation(key)):
            names = [member.address for member in self.members(key)]
            out, count = self._array(
                'oxp_service_table', 'uint16_t', self.library.key(key),
                guess=self._api.OXP_SLOTS_DEFAULT)
        return [None if index == self._api.OXP_NO_MEMBER else names[index]
                for index in self._ffi.unpack(out, count)]

    def pick(self, key: Key, client: str, client_port: int) -> str | None:
        """Which member a packet of this flow goes to."""
        member = self._ffi.new('struct oxp_address *')
        try:
            self._call('oxp_service_pick', self.library.key(key),
                       self.library.address(client), client_port, member)
        except DatapathError as error:
            if error.errno == errno.ENETUNREACH:
                return None
            raise
        return _text(member)

    def apply_health(
            self, results: typing.Iterable[tuple[int, bool]]) -> int:
        """Take (check, up) results; returns how many tables switched."""
        wanted = list(results)
        out = self._ffi.new('struct oxp_result[]', wanted)
        return self._call('oxp_health_apply', out, len(wanted))

    def outcomes(self) -> dict[Outcome, int]:
        """Packets by outcome; only drops are counted here."""
        out, count = self._array('oxp_outcomes', 'uint64_t')
        known = set(Outcome)
        return {Outcome(index): out[index] for index in range(count)
                if index in known}

    def verify(self) -> str | None:
        """What is wrong with the first broken table, or None."""
        self._call('oxp_verify')
        return self._ffi.string(self._error).decode() or None
