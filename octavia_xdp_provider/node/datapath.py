# SPDX-License-Identifier: Apache-2.0
"""The Python interface of the node's forwarding state in the kernel."""

import errno
import os
import threading
import typing
from typing import Any

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
from octavia_xdp_provider.process import shared_library

# Users of the datapath import all of these from here.
__all__ = ['LIBRARY_VARIABLE', 'Counters', 'Datapath', 'DatapathError',
           'Encapsulation', 'Fault', 'Info', 'Key', 'Library', 'Member',
           'MemberName', 'MemberState', 'NatFlow', 'NatState', 'NatTimeouts',
           'NatUsage', 'NodeFlag', 'NodeSettings', 'Outcome', 'ProbeOutcome',
           'ProbeTarget', 'Service', 'ServiceFlag', 'Settings',
           'Summary', 'Tunnel', 'Uplink', 'is_foreign', 'is_stale']

# First guess of a table's number of slots.
_SLOTS_FIRST = 1024


def is_stale(error: Exception) -> bool:
    """Return whether the open state was removed or taken over."""
    return isinstance(error, DatapathError) and error.errno == errno.ESTALE


def is_foreign(error: Exception) -> bool:
    """Return whether the pinned state belongs to another library.

    If so, that library has taken over, and the process must end to be started
    again with the library that is installed now.
    """
    return isinstance(error, DatapathError) and error.errno == errno.EPROTO


class Datapath:
    """The node's forwarding state in the kernel.

    Opens the state pinned in `pin_directory` or, with `create`, loads and
    pins it. Sizes only matter at creation; `info()` returns those in force.
    Closing it, or the end of the process, changes nothing in the kernel.
    """

    def __init__(self, pin_directory: str, lock_file: str, *,
                 create: bool = False, services_max: int = 0,
                 members_max: int = 0, slots_max: int = 0,
                 flows_max: int = 0,
                 library: str | Library | None = None) -> None:
        if not isinstance(library, Library):
            library = Library(library)
        self.library = library
        self._ffi = library.ffi
        self._api = library.api
        self._local = threading.local()
        self._keys: dict[tuple[bytes, int, int], Key] = {}  # a cache
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

    def __enter__(self) -> 'Datapath':
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def close(self) -> None:
        node, self._node = self._node, None
        if node is not None:
            self._api.oxp_close(node)

    @property
    def _error(self) -> Any:
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

    def _call(self, name: str, *arguments: Any) -> int:
        if self._node is None:
            raise DatapathError(errno.EBADF, 'the datapath is closed')
        self._error[0] = b'\0'
        return self._check(getattr(self._api, name)(
            self._node, *arguments, self._error))

    def _array(self, name: str, kind: str, *arguments: Any, guess: int = 64
               ) -> tuple[Any, int]:
        """Call a function that fills an array; repeat it with more room if
        the result did not fit."""
        capacity = guess
        while True:
            out = self._ffi.new(f'{kind}[]', capacity)
            count = self._call(name, *arguments, out, capacity)
            if count <= capacity:
                return out, count
            capacity = count

    def set_nat_pools(self, pools: typing.Sequence[str]) -> None:
        """Set the pools: networks for this node only, whose addresses are the
        sources of packets to members by NAT."""
        self._call('oxp_nat_pools_set', self.library.networks(pools),
                   len(pools))

    def nat_pools(self) -> list[str]:
        out, count = self._array('oxp_nat_pools_list', 'struct oxp_network')
        return [shared_library.network_of(out[i]) for i in range(count)]

    def set_nat_peers(self, peers: typing.Sequence[str]) -> None:
        """Set the nodes that hand packets of NAT on to each other, this node
        included: for each an address of its pools, in an order that is the
        same on all nodes."""
        self._call('oxp_nat_peers_set', self.library.addresses(peers),
                   len(peers))

    def nat_peers(self) -> list[str]:
        out, count = self._array('oxp_nat_peers_list', 'struct oxp_address')
        return [shared_library.text_of(out[i]) for i in range(count)]

    def seek_udp(self, seconds: int) -> None:
        """Ask the peers for unknown UDP flows of NAT for this long from now;
        0: stop asking."""
        self._call('oxp_nat_seek_udp', seconds)

    def seeks_udp_s(self) -> int:
        """Return for how many more seconds the peers are asked."""
        out = self._ffi.new('uint32_t *')
        self._call('oxp_nat_seek_udp_left', out)
        return int(out[0])

    def set_nat_timeouts(self, timeouts: NatTimeouts) -> None:
        """Set the timeouts, which apply to existing flows at once."""
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
                  client: str | None = None, client_port: int = 0
                  ) -> tuple[list[NatFlow], int]:
        """Return (flows of NAT that match all filters, how many there are).

        At most `limit` flows are returned; 0: all.
        """
        wanted = self.library.nat_filter(service, client, client_port)
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

    def attach(self, ifindex: int) -> None:
        """Attach to an interface of the caller's network namespace.

        If a program is attached already, it is replaced by the library's own
        without losing a packet.
        """
        self._call('oxp_interface_attach', ifindex)

    def detach(self, ifindex: int) -> None:
        self._call('oxp_interface_detach', ifindex)

    def set_uplinks(self, uplinks: typing.Iterable[Uplink]) -> None:
        """Replace all uplinks; each packet uses either the old or the new.

        Packets of a family without an uplink are dropped and counted.
        """
        wanted = list(uplinks)
        self._call('oxp_uplinks_set', self.library.uplinks(wanted),
                   len(wanted))

    def set_node(self, settings: NodeSettings) -> None:
        """Set what applies to all services of the node."""
        self._call('oxp_node_settings_set',
                   self.library.node_settings(settings))

    def set_service(self, key: Key, members: typing.Iterable[Member],
                    settings: Settings | None = None) -> bool:
        """Create or update a service to have exactly these members and
        settings, or default settings.

        Members that stay keep their health. Returns whether anything changed.
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
        """Do set_service() for many services at once, which costs far less.

        Each is set as a whole or not at all. Returns the keys of those that
        changed, and the errors of those that were refused.
        """
        keys = list(wanted)
        out = self._ffi.new('struct oxp_wanted_service[]', len(keys))
        alive = []  # keeps objects that only pointers in `out` refer to
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
        changed: set[Key] = set()
        refused: dict[Key, DatapathError] = {}
        for key, entry in zip(keys, out, strict=True):
            if entry.changed:
                changed.add(key)
            if entry.status:
                # The library's text is about the first one.
                refusal = self._refusal(key, *wanted[key]) if (
                    refused) else failure
                refused[key] = refusal or DatapathError(-entry.status, '')
        return changed, refused

    def _refusal(self, key: Key, settings: Settings,
                 members: typing.Sequence[Member]) -> DatapathError | None:
        try:
            self.set_service(key, members, settings)
        except DatapathError as error:
            return error
        return None

    def delete_services(self, keys: typing.Iterable[Key]) -> int:
        """Delete services; return how many of them existed. The cost does not
        depend on their number."""
        wanted = list(keys)
        out = self._ffi.new('struct oxp_key[]', len(wanted))
        for index, key in enumerate(wanted):
            out[index] = self.library.key(key)[0]
        return self._call('oxp_services_delete', out, len(wanted))

    def services(self) -> list[Service]:
        out, count = self._array('oxp_services_list', 'struct oxp_service')
        return [oxp.service_of(out[index]) for index in range(count)]

    def summaries(self) -> dict[Key, Summary]:
        """Return the summaries of all services, at little cost."""
        out, count = self._array('oxp_services_list', 'struct oxp_service',
                                 guess=1024)
        summaries = {}
        if len(self._keys) > 2 * count + 1024:
            self._keys.clear()
        for service in out[0:count]:
            raw = bytes(self._ffi.buffer(service.key.vip.bytes))
            name = raw, service.key.port, service.key.protocol
            key = self._keys.get(name)
            if key is None:
                key = self._keys[name] = oxp.key_of(service.key)
            summaries[key] = Summary(
                (service.index, service.generation, service.members_state),
                service.enabled, service.counters.bytes,
                service.counters.flows, service.drops, service.active_flows,
                service.counters.packets, service.reply_bytes,
                service.open_slots,
                bool(service.settings.flags & ServiceFlag.SECOND_CHANCE),
                service.slots, service.flow_table_full)
        return summaries

    def generations(self) -> dict[int, int]:
        """Return index of a service → generation of its table."""
        out, count = self._array('oxp_services_list', 'struct oxp_service',
                                 guess=1024)
        return {service.index: service.generation
                for service in out[0:count]}

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
        return [oxp.member_of(member) for member in out[0:count]]

    def allowed(self, key: Key) -> list[str]:
        """Return the networks of allowed clients; empty if all are."""
        out, count = self._array('oxp_networks_list', 'struct oxp_network',
                                 self.library.key(key))
        return [shared_library.network_of(network) for network in out[0:count]]

    def known_checks(self) -> set[int]:
        """Return the checks that have a result in some table."""
        services, count = self._array('oxp_services_list',
                                      'struct oxp_service')
        known: set[int] = set()
        for service in services[0:count]:
            try:
                out, members = self._array(
                    'oxp_members_list', 'struct oxp_member_state',
                    self._ffi.addressof(service.key))
            except DatapathError as error:
                if error.errno != errno.ENOENT:
                    raise
                continue
            known.update(member.check for member in out[0:members]
                         if member.known)
        return known

    def _generation(self, key: Key) -> int:
        out = self._ffi.new('struct oxp_service *')
        self._call('oxp_service_get', self.library.key(key), out)
        return int(out.generation)

    def table(self, key: Key) -> list[str | None]:
        """Return the member of each slot as str: its address, with its port
        if packets to it are rewritten to one."""
        return self.tables(key)[0]

    def tables(self, key: Key) -> tuple[list[str | None], list[str | None]]:
        """Return for each slot the member of new flows, and the member of
        flows from before the last change, which only differs in open slots.
        While the number of slots changes, the second list has the old number.
        """
        generation = None
        # Repeat until members and slots are of the same table.
        while generation != (generation := self._generation(key)):
            names = dict(enumerate(str(member.name)
                                   for member in self.members(key)))
            earlier = self._ffi.new('uint32_t *')
            capacity, count = 0, _SLOTS_FIRST
            while max(count, earlier[0]) > capacity:
                capacity = max(count, earlier[0])
                now, before = (self._ffi.new('uint16_t[]', capacity)
                               for _ in range(2))
                count = self._call('oxp_table_get',
                                   self.library.key(key), now, before,
                                   capacity, earlier)
        owners, owners_before = (
            [names.get(index) for index in self._ffi.unpack(slots, length)]
            for slots, length in ((now, count), (before, earlier[0])))
        return owners, owners_before

    def apply_health(
            self, results: typing.Iterable[tuple[int, bool]]) -> int:
        """Apply (check, up) results; return how many tables switched."""
        wanted = list(results)
        out = self._ffi.new('struct oxp_health_result[]', wanted)
        return self._call('oxp_health_apply', out, len(wanted))

    def tick(self) -> int:
        """Age and close slots; must be called each second by one process.

        Returns how many slots are still open.
        """
        return self._call('oxp_slots_age')

    def apply_history(self, key: Key, changes: typing.Sequence[tuple[
            int, int, typing.Mapping[MemberName, int]]]) -> bool:
        """Set the former owners of slots, as reported by other nodes, in a
        service that has not forwarded packets.

        :param changes: past changes of members that take new flows, newest
            first: (age in seconds, number of slots before, weights before).
        :returns: False if the service has forwarded packets.
        """
        past = self.library.past_weights(changes)
        return bool(self._call('oxp_history_apply', self.library.key(key),
                               past, len(past)))

    def outcomes(self) -> dict[Outcome, OutcomeCounters]:
        """Return packets by outcome; the library counts neither passed nor
        forwarded ones here."""
        out, count = self._array('oxp_outcomes_list',
                                 'struct oxp_outcome_counters')
        known = set(Outcome)
        return {Outcome(index): oxp.outcome_counters_of(out[index])
                for index in range(count) if index in known}

    @property
    def probe_marks(self) -> range:
        """The range of marks that targets may have."""
        first = self._api.OXP_PROBE_MARK
        return range(first, (first | ~self._api.OXP_PROBE_MARK_MASK
                             & 0xffffffff) + 1)

    def set_probes(self, wanted: typing.Mapping[int, ProbeTarget]) -> None:
        """Set mark → target of probes, replacing all others."""
        self._call('oxp_probes_set', self.library.probes(wanted),
                   len(wanted))

    def probes(self) -> dict[int, ProbeTarget]:
        """Return mark → target of probes.

        The result is the same object until the table changes.
        """
        out, count = self._array('oxp_probes_list', 'struct oxp_probe',
                                 guess=64 + len(self._probes[1]))
        raw = bytes(self._ffi.buffer(
            out, count * self._ffi.sizeof('struct oxp_probe')))
        if raw != self._probes[0]:
            self._probes = raw, {probe.mark: oxp.probe_target_of(probe)
                                 for probe in out[0:count]}
        return self._probes[1]

    def set_token_networks(self, networks: typing.Sequence[str]) -> None:
        """Set the networks of all tokens. Packets to them that have neither a
        mark nor a target are dropped."""
        self._call('oxp_token_networks_set', self.library.networks(networks),
                   len(networks))

    def attach_probe(self, ifindex: int) -> None:
        """Send marked probes that leave by an interface to their targets.

        :raises DatapathError: ENOENT before set_probes().
        """
        self._call('oxp_probe_attach', ifindex)

    def remove_probes(self) -> bool:
        """Remove targets and programs; return whether there were any."""
        return bool(self._call('oxp_probes_remove'))

    def probe_outcomes(self) -> dict[ProbeOutcome, int]:
        """Return the number of marked packets by outcome."""
        out, count = self._array('oxp_probe_outcomes_list', 'uint64_t')
        return {ProbeOutcome(index): out[index] for index in range(count)}

    def faults(self) -> list[Fault]:
        """Compute the tables afresh and return all differences."""
        out, count = self._array('oxp_faults_list', 'struct oxp_fault')
        return [Fault(oxp.key_of(fault.key) if fault.key.protocol else None,
                      self._ffi.string(fault.text).decode(errors='replace'))
                for fault in out[0:count]]
