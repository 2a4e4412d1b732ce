# SPDX-License-Identifier: Apache-2.0
"""The datapath's shared library, and conversions for its calls."""

import errno
import os
import typing
from typing import Any

import cffi

from octavia_xdp_provider.node import types
from octavia_xdp_provider.process import shared_library
from octavia_xdp_provider.process.shared_library import mac
from octavia_xdp_provider.process.shared_library import packed
from octavia_xdp_provider.process.shared_library import text_of

API_VERSION = 14
# The number is that of the datapath's layout: libraries of several layouts can
# be installed side by side.
LIBRARY = 'liboctavia_xdp.so.10'
LIBRARY_VARIABLE = 'OCTAVIA_XDP_LIBRARY'


class DatapathError(shared_library.LibraryError):
    """The library refused a call, with this errno and text."""


def load(path: str) -> tuple[cffi.FFI, Any]:
    """Return types and functions of a library with any API version.

    :raises DatapathError: it is not a library of the datapath.
    """
    return shared_library.load(path, DatapathError)


def path_of(path: str | None) -> str:
    return path or os.environ.get(LIBRARY_VARIABLE) or LIBRARY


class Library(shared_library.Library):
    """The loaded shared library, its parsed header, and conversions."""

    prefix = 'oxp'

    def __init__(self, path: str | None = None) -> None:
        super().__init__(path_of(path), API_VERSION, DatapathError)

    def addresses(self, texts: typing.Sequence[str]) -> Any:
        out = self.ffi.new('struct oxp_address[]', len(texts))
        for place, text in enumerate(texts):
            out[place] = self.address(text)[0]
        return out

    def key(self, key: types.Key) -> Any:
        try:
            protocol = types.PROTOCOLS[key.protocol]
        except KeyError:
            raise DatapathError(
                errno.EPROTONOSUPPORT,
                f'protocol {key.protocol} is not supported') from None
        return self.ffi.new(
            'struct oxp_key *',
            (self.address(key.address)[0], key.port, protocol))

    def nat_filter(self, service: types.Key | None, client: str | None,
                   client_port: int) -> Any:
        out = self.ffi.new('struct oxp_nat_filter *')
        if service is not None:
            out.service = self.key(service)[0]
        if client is not None:
            out.client = self.address(client)[0]
        out.client_port = client_port
        return out

    def settings(self, wanted: types.Settings) -> tuple[Any, Any]:
        """Return the structure, and an object that must outlive it."""
        fields = wanted._asdict()
        allowed = fields.pop('allowed')
        out = self.ffi.new('struct oxp_service_settings *', fields)
        if allowed is None:
            return out, None
        networks = self.networks(allowed)
        out.allowed = networks
        out.allowed_count = len(allowed)
        return out, networks

    def uplinks(self, wanted: typing.Sequence[types.Uplink]) -> Any:
        out = self.ffi.new('struct oxp_uplink[]', len(wanted))
        for uplink, entry in zip(wanted, out, strict=True):
            entry.ifindex = uplink.ifindex
            entry.mtu = uplink.mtu
            entry.own_mac = mac(uplink.own_mac)
            entry.next_hop_mac_v4 = mac(uplink.next_hop_mac_v4)
            entry.next_hop_mac_v6 = mac(uplink.next_hop_mac_v6)
            entry.vlans = len(uplink.vlans)
            for position, tag in enumerate(uplink.vlans):
                entry.vlan[position] = tag
        return out

    def node_settings(self, wanted: types.NodeSettings) -> Any:
        out = self.ffi.new('struct oxp_node_settings *')
        out.source_v4 = self.address(wanted.source_v4)[0]
        out.source_v6 = self.address(wanted.source_v6)[0]
        out.entropy_v4 = wanted.entropy_v4
        out.entropy_v6 = wanted.entropy_v6
        out.flags = wanted.flags
        out.icmp_rate = wanted.icmp_rate
        return out

    def probes(self, wanted: typing.Mapping[int, types.ProbeTarget]) -> Any:
        out = self.ffi.new('struct oxp_probe[]', len(wanted))
        for (mark, target), entry in zip(wanted.items(), out, strict=True):
            entry.mark = mark
            entry.vip = self.address(target.vip)[0]
            entry.member = self.address(target.member)[0]
            entry.encapsulation = target.encapsulation
            entry.dscp = target.dscp
            entry.sid_function = target.sid_function
            entry.port = target.port
            entry.is_token = target.is_token
            self._fill_tunnel(entry.tunnel, target.tunnel)
        return out

    def members(self, wanted: typing.Sequence[types.Member]) -> Any:
        out = self.ffi.new('struct oxp_member[]', len(wanted))
        for member, entry in zip(wanted, out, strict=True):
            entry.address.bytes = packed(member.address)
            entry.check = member.check
            entry.weight = member.weight
            entry.mtu = member.mtu
            entry.admin_up = member.admin_up
            entry.backup = member.backup
            entry.port = member.port
            self._fill_tunnel(entry.tunnel, member.tunnel)
        return out

    def past_weights(self, changes: typing.Sequence[tuple[
            int, int, typing.Mapping[types.MemberName, int]]]) -> Any:
        """Return an array. A change without members gets a placeholder."""
        wanted = [(age, slots, name, weight)
                  for age, slots, members in changes
                  for name, weight in (members or _NO_MEMBER).items()]
        out = self.ffi.new('struct oxp_past_weight[]', len(wanted))
        for (age, slots, name, weight), entry in zip(wanted, out,
                                                     strict=True):
            entry.address.bytes = packed(name.address)
            entry.port = name.port
            entry.weight = weight
            entry.slots = slots
            entry.age_s = age
        return out

    def _fill_tunnel(self, entry: Any, tunnel: types.Tunnel | None) -> None:
        if tunnel is not None:
            entry.address = self.address(tunnel.address)[0]
            entry.encapsulation = tunnel.encapsulation
            entry.key = tunnel.key
            entry.keeps_port = tunnel.keeps_port
            entry.takes_alternative = tunnel.takes_alternative


_NO_MEMBER = {types.MemberName('::'): 0}


def key_of(key: Any) -> types.Key:
    # Damaged state may have any number, which faults() reports.
    return types.Key(
        text_of(key.vip),
        types.PROTOCOL_NAMES.get(key.protocol, str(key.protocol)), key.port)


def counters_of(counters: Any) -> types.Counters:
    return types.Counters(counters.packets, counters.bytes, counters.flows)


def outcome_counters_of(counters: Any) -> types.OutcomeCounters:
    return types.OutcomeCounters(counters.packets, counters.bytes)


def settings_of(settings: Any) -> types.Settings:
    return types.Settings(
        slots=settings.slots, flags=types.ServiceFlag(settings.flags),
        encapsulation=types.Encapsulation(settings.encapsulation),
        **{name: getattr(settings, name) for name in (
            'dscp', 'sid_function', 'source_length_v4', 'source_length_v6',
            'idle_timeout_s', 'new_flow_rate', 'new_flow_burst', 'nat_flows',
            'nat_group', 'connection_limit')})


def service_of(out: Any) -> types.Service:
    return types.Service(
        key_of(out.key), out.index, out.slots, out.members, out.enabled,
        out.generation, counters_of(out.counters), out.open_slots,
        settings_of(out.settings), out.drops, out.active_flows,
        out.reply_packets, out.reply_bytes, out.open_connections,
        out.flow_table_full)


def nat_flow_of(out: Any) -> types.NatFlow:
    return types.NatFlow(
        key_of(out.service), text_of(out.client), out.client_port,
        text_of(out.pool), out.pool_port, text_of(out.member),
        out.member_port, types.NatState(out.state), out.idle_s,
        out.expires_s)


def member_of(out: Any) -> types.MemberState:
    return types.MemberState(
        text_of(out.address), out.weight, out.check, bool(out.admin_up),
        bool(out.healthy), bool(out.known), counters_of(out.counters),
        bool(out.backup), out.mtu, bool(out.takes_flows), out.index,
        out.quic_server_id, out.port, tunnel_of(out.tunnel))


def tunnel_of(tunnel: Any) -> types.Tunnel | None:
    if not any(tunnel.address.bytes):
        return None
    return types.Tunnel(text_of(tunnel.address),
                        types.Encapsulation(tunnel.encapsulation), tunnel.key,
                        bool(tunnel.keeps_port),
                        bool(tunnel.takes_alternative))


def probe_target_of(probe: Any) -> types.ProbeTarget:
    return types.ProbeTarget(
        text_of(probe.vip), text_of(probe.member),
        types.Encapsulation(probe.encapsulation), probe.dscp,
        probe.sid_function, probe.port, tunnel_of(probe.tunnel),
        bool(probe.is_token))
