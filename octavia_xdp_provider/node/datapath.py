# SPDX-License-Identifier: Apache-2.0
"""The node's forwarding state in the kernel, seen from Python."""

import errno
import os
import threading
import typing

from octavia_xdp_provider.node import library as oxp
from octavia_xdp_provider.node.library import DatapathError
from octavia_xdp_provider.node.library import Library
from octavia_xdp_provider.node.library import LIBRARY_VARIABLE
from octavia_xdp_provider.node.types import Counters
from octavia_xdp_provider.node.types import Encapsulation
from octavia_xdp_provider.node.types import Fault
from octavia_xdp_provider.node.types import Info
from octavia_xdp_provider.node.types import Key
from octavia_xdp_provider.node.types import Member
from octavia_xdp_provider.node.types import MemberName
from octavia_xdp_provider.node.types import MemberState
from octavia_xdp_provider.node.types import NatFlow
from octavia_xdp_provider.node.types import NatState
from octavia_xdp_provider.node.types import NatTimeouts
from octavia_xdp_provider.node.types import NatUsage
from octavia_xdp_provider.node.types import NodeFlag
from octavia_xdp_provider.node.types import NodeSettings
from octavia_xdp_provider.node.types import Outcome
from octavia_xdp_provider.node.types import OutcomeCounters
from octavia_xdp_provider.node.types import ProbeOutcome
from octavia_xdp_provider.node.types import ProbeTarget
from octavia_xdp_provider.node.types import Service
from octavia_xdp_provider.node.types import ServiceFlag
from octavia_xdp_provider.node.types import Settings
from octavia_xdp_provider.node.types import Summary
from octavia_xdp_provider.node.types import Tunnel
from octavia_xdp_provider.node.types import Uplink

# What users of the datapath need comes from here.
__all__ = ['LIBRARY_VARIABLE', 'Counters', 'Datapath', 'DatapathError',
           'Encapsulation', 'Fault', 'Info', 'Key', 'Library', 'Member',
           'MemberName', 'MemberState', 'NatFlow', 'NatState', 'NatTimeouts',
           'NatUsage', 'NodeFlag', 'NodeSettings', 'Outcome', 'ProbeOutcome',
           'ProbeTarget', 'Service', 'ServiceFlag', 'Settings',
           'Summary', 'Tunnel', 'Uplink', 'is_foreign', 'is_stale']

# A table's usual number of slots, to begin reading with.
_SLOTS_FIRST = 1024


def is_stale(error: Exception) -> bool:
    """Whether what a process has open was removed or taken over."""
    return isinstance(error, DatapathError) and error.errno == errno.ESTALE


def is_foreign(error: Exception) -> bool:
    """Whether what is pinned is of another library.

    It has taken over: the process ends, to be started with the one that is
    installed now.
    """
    return isinstance(error, DatapathError) and error.errno == errno.EPROTO


class Datapath:
    """The node's forwarding state in the kernel.

    Opens what is pinned in `pin_directory` or, with `create`, loads and pins
    it. Sizes matter only at creation; `info()` has those in force.
    Closing it (or dying) changes nothing in the kernel.
    """

    def __init__(self, pin_directory: str, lock_file: str, *,
                 create: bool = False, services_max: int = 0,
                 members_max: int = 0, slots_max: int = 0,
                 flows_max: int = 0,
                 library: str | Library | None = None):
        if not isinstance(library, Library):
            library = Library(library)
        self.library = library
        self._ffi = library.ffi
        self._api = library.api
        self._local = threading.local()
        self._keys: dict[tuple[bytes, int, int], Key] = {}  # by their bytes
        self._probes: tuple[bytes, dict[int, ProbeTarget]] = b'', {}
        directory = self._ffi.new('char[]', os.fsencode(pin_directory))
        lock = self._ffi.new('char[]', os.fsencode(lock_file))
        options = self._ffi.new('struct oxp_options *', {
            'pin_directory': directory, 'lock_file': lock,
            'services_max': services_max, 'members_max': members_max,
            'slots_max': slots_max, 'flows_max': flows_max,
            'create': create})
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

    def set_nat_pools(self, pools: typing.Sequence[str]):
        """Networks of this node alone, from whose addresses NAT goes to
        members, and no others.
        """
        self._call('oxp_nat_pools_set', self.library.networks(pools),
                   len(pools))

    def nat_pools(self) -> list[str]:
        out, count = self._array('oxp_nat_pools_list', 'struct oxp_network')
        return [oxp.network_of(out[i]) for i in range(count)]

    def set_nat_peers(self, peers: typing.Sequence[str]):
        """All nodes that hand packets of NAT on to each other, each by an
        address of its pools, in the same order on all; one is this node's.
        """
        self._call('oxp_nat_peers_set', self.library.addresses(peers),
                   len(peers))

    def nat_peers(self) -> list[str]:
        out, count = self._array('oxp_nat_peers_list', 'struct oxp_address')
        return [oxp.text_of(out[i]) for i in range(count)]

    def seek_udp(self, seconds: int):
        """For so long from now datagrams of unknown flows of NAT are sought
        among the peers; 0: no more.
        """
        self._call('oxp_nat_seek_udp', seconds)

    def seeks_udp_s(self) -> int:
        """For how long still."""
        out = self._ffi.new('uint32_t *')
        self._call('oxp_nat_seek_udp_left', out)
        return out[0]

    def set_nat_timeouts(self, timeouts: NatTimeouts):
        """They hold at once, also for flows that are there."""
        self._call('oxp_nat_timeouts_set', self._ffi.new(
            'struct oxp_nat_timeouts *', {
                f'{name}_s': seconds
                for name, seconds in timeouts._asdict().items()}))

    def nat_timeouts(self) -> NatTimeouts:
        out = self._ffi.new('struct oxp_nat_timeouts *')
        self._call('oxp_nat_timeouts_get', out)
        return NatTimeouts(*(getattr(out, f'{name}_s')
                             for name in NatTimeouts._fields))

    def nat_usage(self) -> NatUsage:
        out = self._ffi.new('struct oxp_nat_usage *')
        self._call('oxp_nat_usage_get', out)
        return NatUsage(*(getattr(out, field)
                          for field in NatUsage._fields))

    def nat_flows(self, limit: int = 0, *, service: Key | None = None,
                  client: str | None = None, client_port: int = 0,
                  pool: str | None = None, pool_port: int = 0,
                  member: str | None = None, member_port: int = 0,
                  state: NatState | None = None
                  ) -> tuple[list[NatFlow], int]:
        """(flows of NAT that have all that is given, how many there are)

        No more than `limit` are returned; 0: all.
        """
        wanted = self.library.nat_filter(
            service, client, client_port, pool, pool_port, member,
            member_port, state)
        if limit:
            out = self._ffi.new('struct oxp_nat_flow[]', limit)
            count = self._call('oxp_nat_flows_list', wanted, out, limit)
        else:
            out, count = self._array('oxp_nat_flows_list',
                                     'struct oxp_nat_flow', wanted)
        return [oxp.nat_flow_of(out[i])
                for i in range(min(count, limit or count))], count

    def info(self) -> Info:
        out = self._ffi.new('struct oxp_info *')
        self._call('oxp_info_get', out)
        return Info(*(getattr(out, field) for field in Info._fields))

    def attach(self, ifindex: int):
        """Attach to an interface of the caller's network namespace.

        If it is attached already, the program is replaced by the library's
        own one without losing a packet.
        """
        self._call('oxp_interface_attach', ifindex)

    def detach(self, ifindex: int):
        self._call('oxp_interface_detach', ifindex)

    def set_uplinks(self, uplinks: typing.Iterable[Uplink]):
        """Replace all uplinks; a packet sees the old ones or these.

        Packets of a family without an uplink are dropped, counted.
        """
        wanted = list(uplinks)
        self._call('oxp_uplinks_set', self.library.uplinks(wanted),
                   len(wanted))

    def set_node(self, settings: NodeSettings):
        """What holds for all services."""
        self._call('oxp_node_settings_set',
                   self.library.node_settings(settings))

    def set_service(self, key: Key, members: typing.Iterable[Member],
                    settings: Settings | None = None) -> bool:
        """Make the service exist with exactly these members and settings.

        Without settings it has the defaults.
        Health already known of members that stay is kept. Returns whether
        anything changed.
        """
        wanted = list(members)
        changed = self._ffi.new('uint8_t *')
        out, _networks = self.library.settings(settings or Settings())
        self._call('oxp_service_set', self.library.key(key), out,
                   self.library.members(wanted), len(wanted), changed)
        return bool(changed[0])

    def set_services(
            self, wanted: typing.Mapping[Key, tuple[
                Settings, typing.Sequence[Member]]],
            ) -> tuple[set[Key], dict[Key, DatapathError]]:
        """set_service() for many at once, which costs far less.

        Each is set whole or not at all. Returns those that changed, and why
        others were refused.
        """
        keys = list(wanted)
        out = self._ffi.new('struct oxp_wanted_service[]', len(keys))
        alive = []  # what only pointers in `out` refer to
        for key, entry in zip(keys, out, strict=True):
            settings, networks = self.library.settings(wanted[key][0])
            members = self.library.members(wanted[key][1])
            alive.append((settings, networks, members))
            entry.key = self.library.key(key)[0]
            entry.settings = settings
            entry.members = members
            entry.count = len(members)
        failure = None
        try:
            self._call('oxp_services_set', out, len(keys))
        except DatapathError as error:
            failure = error
            if not any(entry.status for entry in out):
                raise
        changed, refused = set(), {}
        for key, entry in zip(keys, out, strict=True):
            if entry.changed:
                changed.add(key)
            if entry.status:
                # The text is about the first.
                refused[key] = failure if not refused else self._refusal(
                    key, *wanted[key]) or DatapathError(-entry.status, '')
        return changed, refused

    def _refusal(self, key, settings, members):
        try:
            self.set_service(key, members, settings)
        except DatapathError as error:
            return error
        return None

    def delete_services(self, keys: typing.Iterable[Key]) -> int:
        """Returns how many of them existed; many at once cost as one."""
        wanted = list(keys)
        out = self._ffi.new('struct oxp_key[]', len(wanted))
        for index, key in enumerate(wanted):
            out[index] = self.library.key(key)[0]
        return self._call('oxp_services_delete', out, len(wanted))

    def services(self) -> list[Service]:
        out, count = self._array('oxp_services_list', 'struct oxp_service')
        return [oxp.service_of(out[index]) for index in range(count)]

    def summaries(self) -> dict[Key, Summary]:
        """What shows whether a service has changed: of all, at little cost.
        """
        out, count = self._array('oxp_services_list', 'struct oxp_service',
                                 guess=1024)
        found = {}
        if len(self._keys) > 2 * count + 1024:
            self._keys.clear()
        for one in out[0:count]:
            raw = bytes(self._ffi.buffer(one.key.vip.bytes))
            name = raw, one.key.port, one.key.protocol
            key = self._keys.get(name)
            if key is None:
                key = self._keys[name] = oxp.key_of(one.key)
            found[key] = Summary(
                (one.index, one.generation, one.members_state), one.enabled,
                one.counters.bytes, one.counters.flows, one.drops,
                one.active_flows, one.counters.packets, one.reply_bytes,
                one.open_slots,
                bool(one.settings.flags & ServiceFlag.SECOND_CHANCE),
                one.slots)
        return found

    def generations(self) -> dict[int, int]:
        """Generation of each service's table, by the service's index."""
        out, count = self._array('oxp_services_list', 'struct oxp_service',
                                 guess=1024)
        return {one.index: one.generation for one in out[0:count]}

    def service(self, key: Key) -> Service | None:
        out = self._ffi.new('struct oxp_service *')
        try:
            self._call('oxp_service_get', self.library.key(key), out)
        except DatapathError as error:
            if error.errno == errno.ENOENT:
                return None
            raise
        return oxp.service_of(out)

    def members(self, key: Key) -> list[MemberState]:
        out, count = self._array(
            'oxp_members_list', 'struct oxp_member_state',
            self.library.key(key))
        return [oxp.member_of(one) for one in out[0:count]]

    def allowed(self, key: Key) -> list[str]:
        """Networks of clients that the service takes; none: everybody."""
        out, count = self._array('oxp_networks_list', 'struct oxp_network',
                                 self.library.key(key))
        return [oxp.network_of(one) for one in out[0:count]]

    def known_checks(self) -> set[int]:
        """Checks whose result some table already knows."""
        services, count = self._array('oxp_services_list',
                                      'struct oxp_service')
        known = set()
        for service in services[0:count]:
            try:
                out, members = self._array(
                    'oxp_members_list', 'struct oxp_member_state',
                    self._ffi.addressof(service.key))
            except DatapathError as error:
                if error.errno != errno.ENOENT:
                    raise
                continue
            known.update(one.check for one in out[0:members] if one.known)
        return known

    def _generation(self, key: Key) -> int:
        out = self._ffi.new('struct oxp_service *')
        self._call('oxp_service_get', self.library.key(key), out)
        return out.generation

    def table(self, key: Key) -> list[str | None]:
        """The member of each slot, as a text: its address, with its port if
        packets to it get one."""
        return self.tables(key)[0]

    def tables(self, key: Key) -> tuple[list[str | None], list[str | None]]:
        """Of each slot the member of new flows, and that of flows that
        began before the last change; the same where nothing is changing.
        While the number of slots changes, the second is by the one before.
        """
        generation = None
        # Until members and slots are those of one table.
        while generation != (generation := self._generation(key)):
            names = dict(enumerate(str(one.name)
                                   for one in self.members(key)))
            earlier = self._ffi.new('uint32_t *')
            capacity, count = 0, _SLOTS_FIRST
            while max(count, earlier[0]) > capacity:
                capacity = max(count, earlier[0])
                now, before = (self._ffi.new('uint16_t[]', capacity)
                               for _ in range(2))
                count = self._call('oxp_table_get',
                                   self.library.key(key), now, before,
                                   capacity, earlier)
        return tuple([names.get(index)
                      for index in self._ffi.unpack(slots, length)]
                     for slots, length in ((now, count),
                                           (before, earlier[0])))

    def apply_health(
            self, results: typing.Iterable[tuple[int, bool]]) -> int:
        """Take (check, up) results; returns how many tables switched."""
        wanted = list(results)
        out = self._ffi.new('struct oxp_health_result[]', wanted)
        return self._call('oxp_health_apply', out, len(wanted))

    def tick(self) -> int:
        """Age and close slots; to be called each second by one process.

        Returns how many slots are still open.
        """
        return self._call('oxp_slots_age')

    def apply_history(self, key: Key, changes: typing.Sequence[tuple[
            int, int, typing.Mapping[MemberName, int]]]) -> bool:
        """Give the slots of a service that has forwarded nothing the earlier
        owners that other nodes know.

        :param changes: of members that take new flows, the newest first:
            seconds since then, slots and weights until then.
        :returns: False where it has forwarded something.
        """
        past = self.library.past_weights(changes)
        return bool(self._call('oxp_history_apply', self.library.key(key),
                               past, len(past)))

    def outcomes(self) -> dict[Outcome, OutcomeCounters]:
        """Packets by outcome, but for those passed and forwarded."""
        out, count = self._array('oxp_outcomes_list',
                                 'struct oxp_outcome_counters')
        known = set(Outcome)
        return {Outcome(index): oxp.outcome_counters_of(out[index])
                for index in range(count) if index in known}

    @property
    def probe_marks(self) -> range:
        """Marks that a target may have."""
        first = self._api.OXP_PROBE_MARK
        return range(first, (first | ~self._api.OXP_PROBE_MARK_MASK
                             & 0xffffffff) + 1)

    def set_probes(self, wanted: typing.Mapping[int, ProbeTarget]):
        """Make these the targets of marked probes, and no others."""
        self._call('oxp_probes_set', self.library.probes(wanted),
                   len(wanted))

    def probes(self) -> dict[int, ProbeTarget]:
        """Targets of marked probes, by their marks.

        The same dictionary as before while the table is as it was.
        """
        out, count = self._array('oxp_probes_list', 'struct oxp_probe',
                                 guess=64 + len(self._probes[1]))
        raw = bytes(self._ffi.buffer(
            out, count * self._ffi.sizeof('struct oxp_probe')))
        if raw != self._probes[0]:
            self._probes = raw, {one.mark: oxp.probe_target_of(one)
                                 for one in out[0:count]}
        return self._probes[1]

    def attach_probe(self, ifindex: int):
        """Send marked probes that leave by an interface to their targets.

        :raises DatapathError: ENOENT before set_probes().
        """
        self._call('oxp_probe_attach', ifindex)

    def remove_probes(self) -> bool:
        """Remove targets and programs; whether there was anything."""
        return bool(self._call('oxp_probes_remove'))

    def probe_outcomes(self) -> dict[ProbeOutcome, int]:
        """Marked packets by what happened to them."""
        out, count = self._array('oxp_probe_outcomes_list', 'uint64_t')
        return {ProbeOutcome(index): out[index] for index in range(count)}

    def faults(self) -> list[Fault]:
        """All that a fresh computation of the tables finds wrong."""
        out, count = self._array('oxp_faults_list', 'struct oxp_fault')
        return [Fault(oxp.key_of(one.key) if one.key.protocol else None,
                      self._ffi.string(one.text).decode(errors='replace'))
                for one in out[0:count]]
