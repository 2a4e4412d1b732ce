# SPDX-License-Identifier: Apache-2.0
"""The hypervisor's datapath, as the agent uses it."""

import collections.abc
import typing
import uuid

from octavia_xdp_provider.contracts import enumerations
from octavia_xdp_provider.host import library
from octavia_xdp_provider.host import types
from octavia_xdp_provider.process.shared_library import network_of

LEFT_ALONE = 0xffffffff
DEFAULT_SIZES = types.Sizes()


class Datapath:
    """The opened pinned state. All calls are idempotent.

    :raises library.HostError: by any call, with the library's error.
    """

    def __init__(self, folder: str, path: str | None = None):
        self._library = library.Library(path)
        self._ffi, self._api = self._library.ffi, self._library.api
        handle = self._ffi.new('struct oxh_host **')
        self._call(self._api.oxh_open, folder.encode(), handle)
        self._host = handle[0]

    @staticmethod
    def create(folder: str, sizes: types.Sizes = DEFAULT_SIZES,
               path: str | None = None) -> bool:
        """Create the state; return False and keep it if it exists."""
        loaded = library.Library(path)
        wanted = loaded.ffi.new('struct oxh_sizes *', sizes._asdict())
        return loaded.call(loaded.api.oxh_create, folder.encode(),
                           wanted) == 1

    @staticmethod
    def remove(folder: str, path: str | None = None) -> bool:
        """Detach programs and remove the state; return whether it existed."""
        loaded = library.Library(path)
        return loaded.call(loaded.api.oxh_remove, folder.encode()) == 0

    def _call(self, function: typing.Any, *arguments: typing.Any) -> int:
        return self._library.call(function, *arguments)

    def close(self) -> None:
        if self._host:
            self._api.oxh_close(self._host)
            self._host = None

    def set_settings(self, wanted: types.Settings) -> None:
        fields = wanted._asdict()
        for name in ('local_v4', 'local_v6', 'sid'):
            fields[name] = self._library.address(fields[name])[0]
        self._call(self._api.oxh_settings_set, self._host,
                   self._ffi.new('struct oxh_settings *', fields))

    def set_networks(self, networks: collections.abc.Sequence[str]) -> None:
        """Replace the networks of LB nodes."""
        self._call(self._api.oxh_networks_set, self._host,
                   self._library.networks(networks), len(networks))

    def set_proxies(self, networks: collections.abc.Sequence[str]) -> None:
        """Replace the networks of proxy nodes."""
        self._call(self._api.oxh_proxies_set, self._host,
                   self._library.networks(networks), len(networks))

    def set_peers(self, networks: collections.abc.Sequence[str]) -> None:
        """Replace the networks of hypervisors, for handing on packets."""
        self._call(self._api.oxh_peers_set, self._host,
                   self._library.networks(networks), len(networks))

    def set_address_set(self, number: int,
                        networks: collections.abc.Sequence[str]) -> None:
        self._call(self._api.oxh_set_set, self._host, number,
                   self._library.networks(networks), len(networks))

    def attach(self, hook: types.Hook, ifindex: int) -> bool:
        return self._call(self._api.oxh_attach, self._host, hook,
                          ifindex) == 1

    def detach(self, hook: types.Hook, ifindex: int) -> bool:
        return self._call(self._api.oxh_detach, self._host, hook,
                          ifindex) == 0

    def set_port(self, wanted: types.Port,
                 rules: collections.abc.Sequence[types.Rule] = ()) -> None:
        port = self._ffi.new('struct oxh_port *', {
            'id': uuid.UUID(wanted.id).bytes, 'ifindex': wanted.ifindex,
            'open': wanted.open, 'flows_max': wanted.flows_max})
        self._call(self._api.oxh_port_set, self._host, port,
                   self._ffi.new('struct oxh_rule[]', [
                       self._library.rule(rule)[0] for rule in rules]),
                   len(rules))

    def delete_port(self, port_id: str) -> bool:
        return self._call(self._api.oxh_port_delete, self._host,
                          uuid.UUID(port_id).bytes) == 0

    def set_entry(self, wanted: types.Entry) -> None:
        self._call(self._api.oxh_entry_set, self._host,
                   self._library.entry(wanted))

    def delete_entry(self, key: int) -> bool:
        return self._call(self._api.oxh_entry_delete, self._host, key) == 0

    def ports(self) -> list[types.PortState]:
        return [library.port_of(port) for port in self._library.listed(
            self._api.oxh_ports_list, 'struct oxh_port', self._host)]

    def entries(self) -> list[types.EntryState]:
        return [library.entry_of(entry) for entry in self._library.listed(
            self._api.oxh_entries_list, 'struct oxh_entry', self._host)]

    def flows(self, table: types.Table) -> list[types.Flow]:
        return [library.flow_of(flow) for flow in self._library.listed(
            self._api.oxh_flows_list, 'struct oxh_flow', self._host, table)]

    def port_flows(self, port_id: str) -> list[types.Flow]:
        """Return the confirmed flows of a port."""
        return [library.flow_of(flow) for flow in self._library.listed(
            self._api.oxh_port_flows_list, 'struct oxh_flow', self._host,
            uuid.UUID(port_id).bytes)]

    def add_flows(self, flows: collections.abc.Sequence[types.KnownFlow]
                  ) -> int:
        """Add flows from another hypervisor; return how many were added."""
        given = self._ffi.new('struct oxh_flow[]', [{
            'client': self._library.address(flow.client)[0],
            'client_port': flow.client_port, 'key': flow.key,
            'closing': flow.closing} for flow in flows])
        return self._call(self._api.oxh_flows_add, self._host, given,
                          len(flows))

    def outcomes(self) -> dict[enumerations.HostOutcome, int]:
        """Return packets by outcome, including outcomes with 0."""
        count = len(enumerations.HostOutcome)
        packets = self._ffi.new('uint64_t[]', count)
        self._call(self._api.oxh_outcomes_list, self._host, packets, count)
        return {outcome: packets[outcome]
                for outcome in enumerations.HostOutcome}

    def drops(self) -> dict[tuple[str, enumerations.HostOutcome], int]:
        """Return packets that were dropped, or at a limit of their port, by
        port id and outcome."""
        return {(library.uuid_text(drop.port_id),
                 enumerations.HostOutcome(drop.outcome)): drop.packets
                for drop in self._library.listed(
                    self._api.oxh_drops_list, 'struct oxh_drop', self._host)}

    def settings(self) -> types.Settings:
        """Return the effective settings: timeouts defaulted and limited."""
        out = self._ffi.new('struct oxh_settings *')
        self._call(self._api.oxh_settings_get, self._host, out)
        return library.settings_of(out)

    def networks(self) -> set[str]:
        """Return what set_networks() has set."""
        return {network_of(net) for net in self._library.listed(
            self._api.oxh_networks_list, 'struct oxh_network', self._host)}

    def proxies(self) -> set[str]:
        """Return what set_proxies() has set."""
        return {network_of(net) for net in self._library.listed(
            self._api.oxh_proxies_list, 'struct oxh_network', self._host)}

    def peers(self) -> set[str]:
        """Return what set_peers() has set."""
        return {network_of(net) for net in self._library.listed(
            self._api.oxh_peers_list, 'struct oxh_network', self._host)}

    def address_sets(self) -> dict[int, set[str]]:
        """Return networks by number of the set; empty sets are left out."""
        sets: dict[int, set[str]] = {}
        for element in self._library.listed(
                self._api.oxh_sets_list, 'struct oxh_set_network',
                self._host):
            sets.setdefault(element.set, set()).add(
                network_of(element.network))
        return sets

    def rules(self, port_id: str) -> list[types.Rule]:
        """Return the rules of a port; each has either a network or a set."""
        return [library.rule_of(rule) for rule in self._library.listed(
            self._api.oxh_rules_list, 'struct oxh_rule', self._host,
            uuid.UUID(port_id).bytes)]

    def programs(self) -> list[types.Program]:
        """Return the pinned programs."""
        return [types.Program(types.Hook(program.hook), program.ifindex,
                              bool(program.attached), bool(program.current))
                for program in self._library.listed(
                    self._api.oxh_programs_list, 'struct oxh_program',
                    self._host)]

    def tick(self) -> int:
        return self._call(self._api.oxh_tick, self._host)

    def run(self, hook: types.Hook, data: bytes, ifindex: int,
            mark: int = 0) -> types.Frame:
        """Pass a frame through a program with the kernel's test run."""
        frame = self._ffi.new('struct oxh_frame *')
        given = self._ffi.new('uint8_t[]', data)
        out = self._ffi.new('uint8_t[]', self._api.OXH_FRAME_MAX)
        frame.data, frame.length, frame.out = given, len(data), out
        frame.ifindex, frame.mark = ifindex, mark
        self._call(self._api.oxh_run, self._host, hook, frame)
        action = None if frame.action == LEFT_ALONE else frame.action
        return types.Frame(action, bytes(out[0:frame.out_length]), frame.mark,
                           frame.duration)

    def trace(self, port_id: str | None = None, on: bool = True) -> None:
        """Start or stop tracing packets of a port, or of all ports."""
        wanted = (uuid.UUID(port_id).bytes if port_id
                  else self._ffi.cast('uint8_t *', 0))
        self._call(self._api.oxh_trace, self._host, wanted, on)

    def traced(self, timeout_ms: int = 0) -> list[tuple[
            types.Hook, enumerations.HostOutcome, int, bytes]]:
        """Return (hook, outcome, key, first bytes) of newly traced packets."""
        return [(packet.hook, packet.outcome, packet.key, packet.data)
                for packet in self.packets(timeout_ms)]

    def packets(self, timeout_ms: int = 0) -> list[types.Traced]:
        """Return packets traced since the last call.

        :param timeout_ms: milliseconds to wait for the first packet.
        """
        out = self._ffi.new('struct oxh_traced[]', 256)
        count = self._call(self._api.oxh_trace_next, self._host, out, 256,
                           timeout_ms)
        return [types.Traced(
            packet.time, types.Hook(packet.hook),
            enumerations.HostOutcome(packet.outcome), packet.ifindex,
            packet.key, packet.length,
            bytes(packet.data)[:min(packet.length, len(packet.data))])
            for packet in out[0:count]]
