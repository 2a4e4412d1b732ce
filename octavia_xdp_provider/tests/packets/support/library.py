# SPDX-License-Identifier: Apache-2.0
"""The library and its pinned maps, as thin as the packet suite needs them.

Deliberately not the agent's binding: what configures the program here must
not hide what the library says, and needs nothing but cffi.
"""

import ctypes
import ipaddress
import mmap
import os
import pathlib
import platform
import struct
import typing

import cffi

from octavia_xdp_provider.tests.models.packet_model import state

VARIABLE = 'OCTAVIA_XDP_LIBRARY'
SEGMENT_SIZE = 1 << 23
READ_MAX = 1 << 16
BUILD = pathlib.Path(__file__).parents[4] / 'datapath/build'


def path() -> str:
    """The library with what only tests call: datapath/tests/support."""
    product = pathlib.Path(os.environ.get(VARIABLE) or
                           BUILD / 'liboctavia_xdp.so')
    return str(product.parent / 'tests/liboctavia_xdp_test.so')


class Refused(OSError):
    pass


class Library:

    def __init__(self):
        probe = cffi.FFI()
        probe.cdef('extern const char oxp_api_header[];')
        header = probe.string(probe.dlopen(path()).oxp_api_header).decode()
        self.ffi = cffi.FFI()
        self.ffi.cdef(header)
        self.api = self.ffi.dlopen(path())

    def address(self, packed: bytes | None):
        packed = packed or bytes(16)
        if len(packed) == 4:
            packed = bytes(10) + b'\xff\xff' + packed
        return self.ffi.new('struct oxp_address *', (packed,))[0]

    def key(self, service: state.Service):
        return self.ffi.new('struct oxp_key *', (
            self.address(service.vip), service.port, service.protocol, 0))


def packed(address) -> bytes:
    """An address of the library as the model has it."""
    parsed = ipaddress.IPv6Address(bytes(address.bytes))
    return (parsed.ipv4_mapped or parsed).packed


class Datapath:
    """One opened node."""

    def __init__(self, library: Library, directory: str, lock: str,
                 **sizes: int):
        self.library = library
        self.ffi, self.api = library.ffi, library.api
        self._error = self.ffi.new('char[]', self.api.OXP_ERROR_LENGTH)
        names = [self.ffi.new('char[]', os.fsencode(path))
                 for path in (directory, lock)]
        options = self.ffi.new('struct oxp_options *', {
            'pin_directory': names[0], 'lock_file': names[1], 'create': 1,
            **sizes})
        node = self.ffi.new('struct oxp_node **')
        self._check(self.api.oxp_open(options, node, self._error))
        self.node = node[0]
        self.directory = directory

    def _check(self, status: int) -> int:
        if status < 0:
            text = self.ffi.string(self._error).decode(errors='replace')
            raise Refused(-status, text or os.strerror(-status))
        return status

    def call(self, name: str, *arguments) -> int:
        return self._check(getattr(self.api, name)(
            self.node, *arguments, self._error))

    def close(self):
        self.api.oxp_close(self.node)

    def array(self, name: str, kind: str, *arguments, guess: int = 64):
        while True:
            out = self.ffi.new(f'{kind}[]', guess)
            count = self.call(name, *arguments, out, guess)
            if count <= guess:
                return out[0:count]
            guess = count

    def set_node(self, node: state.Node):
        flags = (self.api.OXP_NODE_ECHO * node.echo |
                 self.api.OXP_NODE_CLAMP_MSS * node.clamp_mss |
                 self.api.OXP_NODE_PASS_TOO_BIG * node.pass_too_big)
        settings = self.ffi.new('struct oxp_node_settings *', {
            'source_v4': self.library.address(node.source[4]),
            'source_v6': self.library.address(node.source[6]),
            'entropy_v4': node.entropy[4], 'entropy_v6': node.entropy[6],
            'flags': flags, 'icmp_rate': node.icmp_rate})
        self.call('oxp_node_settings_set', settings)

    def set_uplinks(self, uplinks: typing.Sequence[state.Uplink]):
        out = self.ffi.new('struct oxp_uplink[]', len(uplinks))
        for uplink, entry in zip(uplinks, out, strict=True):
            entry.ifindex, entry.mtu = uplink.ifindex, uplink.mtu
            entry.own_mac = uplink.own_mac
            entry.next_hop_mac_v4 = uplink.gateway[4] or bytes(6)
            entry.next_hop_mac_v6 = uplink.gateway[6] or bytes(6)
            entry.vlans = len(uplink.vlans)
            entry.vlan[0:len(uplink.vlans)] = uplink.vlans
        self.call('oxp_uplinks_set', out, len(uplinks))

    def set_service(self, service: state.Service,
                    members: typing.Sequence[state.Member],
                    slots: int) -> bool:
        """Health is set by apply_health(): checks count from 1 on."""
        networks = self.ffi.NULL
        if service.allowed is not None:
            networks = self.ffi.new('struct oxp_network[]',
                                    len(service.allowed) or 1)
            for entry, (address, length) in zip(networks, service.allowed,
                                                strict=False):
                entry.address = self.library.address(address)
                entry.length = length
        settings = self.ffi.new('struct oxp_service_settings *', {
            'slots': slots,
            'flags': (self.api.OXP_SERVICE_SOURCE * service.by_source |
                      self.api.OXP_SERVICE_QUIC * service.quic |
                      self.api.OXP_SERVICE_SECOND_CHANCE *
                      service.second_chance |
                      self.api.OXP_SERVICE_RESET * service.sends_reset |
                      self.api.OXP_SERVICE_NAT * service.nat),
            'connection_limit': service.connection_limit,
            'encapsulation': service.encapsulation,
            'dscp': service.dscp, 'sid_function': service.sid_function,
            'source_length_v4': service.source_length[4] * service.by_source,
            'source_length_v6': service.source_length[6] * service.by_source,
            'idle_timeout_s': service.idle_timeout,
            'new_flow_rate': service.new_flow_rate,
            'new_flow_burst': service.new_flow_burst,
            'allowed': networks,
            'allowed_count': len(service.allowed or ())})
        out = self.ffi.new('struct oxp_member[]', len(members))
        for member, entry in zip(members, out, strict=True):
            entry.address = self.library.address(member.address)
            entry.check = check_of(*member.name)
            entry.port = member.port
            entry.weight, entry.mtu = member.weight, member.mtu
            entry.admin_up, entry.backup = member.admin_up, member.backup
            if member.tunnel:
                entry.tunnel.address = self.library.address(
                    member.tunnel.address)
                entry.tunnel.encapsulation = member.tunnel.encapsulation
                entry.tunnel.key = member.tunnel.key
                entry.tunnel.keeps_port = member.tunnel.keeps_port
                entry.tunnel.takes_alternative = (
                    member.tunnel.takes_alternative)
        changed = self.ffi.new('uint8_t *')
        self.call('oxp_service_set', self.library.key(service), settings,
                  out, len(members), changed)
        return bool(changed[0])

    def delete_service(self, service: state.Service) -> int:
        return self.call('oxp_services_delete', self.library.key(service), 1)

    def apply_health(self, results: dict[tuple[bytes, int], bool]) -> int:
        """By the members' names."""
        out = self.ffi.new('struct oxp_health_result[]', [
            (check_of(*name), up) for name, up in results.items()])
        return self.call('oxp_health_apply', out, len(results))

    def set_nat_pools(self, pools: typing.Sequence[tuple[bytes, int]]):
        """(address, length) of each."""
        out = self.ffi.new('struct oxp_network[]', len(pools))
        for (address, length), entry in zip(pools, out, strict=True):
            entry.address = self.library.address(address)
            entry.length = length
        self.call('oxp_nat_pools_set', out, len(pools))

    def set_nat_peers(self, peers: typing.Sequence[bytes]):
        out = self.ffi.new('struct oxp_address[]', len(peers))
        for place, address in enumerate(peers):
            out[place] = self.library.address(address)
        self.call('oxp_nat_peers_set', out, len(peers))

    def seek_udp(self, seconds: int):
        self.call('oxp_nat_seek_udp', seconds)

    def nat_flows(self, **wanted):
        """Flows with these fields, as oxp_nat_filter names them."""
        return self.array('oxp_nat_flows_list', 'struct oxp_nat_flow',
                          self.ffi.new('struct oxp_nat_filter *', wanted))

    def nat_flow(self, service: state.Service, client: bytes,
                 port: int):
        """(pool's address, its port, state) of the client's, or None."""
        flows = self.nat_flows(service=self.library.key(service)[0],
                               client=self.library.address(client),
                               client_port=port)
        for flow in flows:
            if flow.client_port == port:  # 0 in a filter is any
                return packed(flow.pool), flow.pool_port, flow.state
        return None

    def nat_usage(self):
        out = self.ffi.new('struct oxp_nat_usage *')
        self.call('oxp_nat_usage_get', out)
        return out

    def tick(self) -> int:
        return self.call('oxp_slots_age')

    def info(self):
        out = self.ffi.new('struct oxp_info *')
        self.call('oxp_info_get', out)
        return out

    def service(self, service: state.Service):
        out = self.ffi.new('struct oxp_service *')
        self.call('oxp_service_get', self.library.key(service), out)
        return out

    def members(self, service: state.Service):
        return self.array('oxp_members_list', 'struct oxp_member_state',
                          self.library.key(service), guess=256)

    def outcomes(self) -> list[tuple[int, int]]:
        """(packets, bytes) of each."""
        count = self.api.OXP_OUTCOMES
        out = self.ffi.new('struct oxp_outcome_counters[]', count)
        self.call('oxp_outcomes_list', out, count)
        return [(counters.packets, counters.bytes) for counters in out]

    def verify(self) -> str:
        self._error[0] = b'\0'
        self.call('oxp_test_verify')
        return self.ffi.string(self._error).decode()

    def run(self, frames: typing.Sequence[bytes],
            first: typing.Sequence[int] | None = None
            ) -> list[tuple[int, bytes]]:
        """(action, frame) of each, in turn through the program.

        `first`: bytes of each frame's first buffer, 0: all of it.

        They come in at the loopback device: another one would have to run
        XDP itself for the kernel's test run to take it.
        """
        space = self.api.OXP_FRAME_MAX
        batch = self.ffi.new('struct oxp_frame[]', len(frames))
        # 128 bytes hold the longest outer header and the longest answer's
        out = [self.ffi.new('uint8_t[]', max(1600, len(frame) + 128))
               for frame in frames]
        data = [self.ffi.from_buffer(frame) for frame in frames]
        for index, frame in enumerate(frames):
            entry = batch[index]
            entry.data = self.ffi.cast('uint8_t *', data[index])
            entry.length = len(frame)
            entry.out = out[index]
            entry.capacity = min(space, len(out[index]))
            entry.first_bytes = first[index] if first else 0
        done = self.call('oxp_test_run', batch, len(frames))
        if done != len(frames):
            raise Refused(0, self.ffi.string(self._error).decode())
        return [(batch[index].action,
                 self.ffi.buffer(out[index],
                                 batch[index].out_length)[:])
                for index in range(len(frames))]


def tunnel_of(member) -> state.Tunnel | None:
    """A member's of the library as the model has it."""
    tunnel = member.tunnel
    if not any(bytes(tunnel.address.bytes)):
        return None
    return state.Tunnel(packed(tunnel.address),
                        state.Encapsulation(tunnel.encapsulation), tunnel.key,
                        bool(tunnel.keeps_port),
                        bool(tunnel.takes_alternative))


def check_of(address: bytes, port: int) -> int:
    """The id of a member's health check: any number that is its own."""
    return port << 32 | int.from_bytes(address[-4:], 'big') or 1


class Map:
    """A pinned map, read by system calls: what the library does not expose."""

    _NUMBER = {'x86_64': 321, 'aarch64': 280}[platform.machine()]
    _LOOKUP, _UPDATE, _DELETE, _NEXT_KEY, _GET = 1, 2, 3, 4, 7
    _libc = ctypes.CDLL(None, use_errno=True)

    def __init__(self, directory: str, name: str, key: int, value: int):
        pin = ctypes.create_string_buffer(
            os.fsencode(os.path.join(directory, 'maps', name)))
        self.fd = self._bpf(self._GET, struct.pack(
            '=QII', ctypes.addressof(pin), 0, 0))
        self._key = ctypes.create_string_buffer(key)
        self._next = ctypes.create_string_buffer(key)
        self._value = ctypes.create_string_buffer(value)

    def close(self):
        os.close(self.fd)

    def _bpf(self, command: int, attributes: bytes) -> int:
        buffer = ctypes.create_string_buffer(attributes, len(attributes))
        result = self._libc.syscall(self._NUMBER, command, buffer,
                                    len(attributes))
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result

    def _element(self, command: int, value) -> None:
        self._bpf(command, struct.pack(
            '=IIQQQ', self.fd, 0, ctypes.addressof(self._key),
            ctypes.addressof(value), 0))

    def read(self, key: bytes) -> bytes:
        self._key.raw = key
        self._element(self._LOOKUP, self._value)
        return self._value.raw

    def write(self, key: bytes, value: bytes):
        self._key.raw = key
        self._value.raw = value
        self._element(self._UPDATE, self._value)

    def clear(self):
        """Remove all elements of a hash map."""
        while True:
            try:
                self._bpf(self._NEXT_KEY, struct.pack(
                    '=IIQQ', self.fd, 0, 0, ctypes.addressof(self._key)))
                self._bpf(self._DELETE, struct.pack(
                    '=IIQ', self.fd, 0, ctypes.addressof(self._key)))
            except FileNotFoundError:
                return


class Words(Map):
    """A pinned array, mapped, of elements of whole words."""

    def __init__(self, directory: str, name: str, size: int):
        super().__init__(directory, name, 4, 0)
        self._memory = mmap.mmap(self.fd, size)

    def close(self):
        self._memory.close()
        super().close()

    def clear(self):
        self._memory[:] = bytes(len(self._memory))


class Segment:
    """A pinned map of one element, mapped."""

    def __init__(self, pin: pathlib.Path):
        pinned = Map(str(pin.parent.parent), pin.name, 4, 0)
        self._memory = mmap.mmap(pinned.fd, SEGMENT_SIZE, mmap.MAP_SHARED,
                                 mmap.PROT_READ)
        pinned.close()

    def close(self):
        self._memory.close()

    def read(self, offset: int) -> bytes:
        """Return up to READ_MAX bytes from `offset` on."""
        return self._memory[offset:offset + READ_MAX]
