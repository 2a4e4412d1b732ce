# SPDX-License-Identifier: Apache-2.0
"""A node's tables, read once, in the packet model's types."""

import ipaddress

from octavia_xdp_provider.node.types import Key
from octavia_xdp_provider.node.types import NodeFlag
from octavia_xdp_provider.node.types import PROTOCOLS
from octavia_xdp_provider.node.types import ServiceFlag
from octavia_xdp_provider.packet_model import state


def _packed(text):
    return None if text is None else ipaddress.ip_address(text).packed


def _mac(text):
    return None if text is None else bytes.fromhex(text.replace(':', ''))


def _tunnel(tunnel):
    return tunnel and state.Tunnel(
        _packed(tunnel.address), tunnel.encapsulation, tunnel.key,
        tunnel.keeps_port, tunnel.takes_alternative)


def _protocol(name):
    # A damaged state may have any number.
    return PROTOCOLS[name] if name in PROTOCOLS else int(name)


class Tables:
    """The tables that decide on packets. ``node`` is a state.Node; the
    services of a VIP are read on demand."""

    def __init__(self, inspection, links):
        self._inspection = inspection
        self._links = links
        self.services = {service.key: service
                         for service in inspection.services()}
        self._keys = {}
        for key in self.services:
            self._keys.setdefault(_packed(key.address), []).append(key)
        self._vips, self._states = {}, {}
        self.settings = inspection.node_settings()
        self.uplinks, self.choices = inspection.uplinks()
        self.node = self._node()

    def version(self):
        """Return a value that changes with everything that is read here."""
        return (frozenset((service.key, service.generation)
                          for service in self.services.values()),
                self.settings, tuple(self.uplinks), self.choices)

    def _node(self):
        settings, flags = self.settings, self.settings.flags
        return state.Node(
            source={state.IPV4: _packed(settings.source_v4),
                    state.IPV6: _packed(settings.source_v6)},
            entropy={state.IPV4: settings.entropy_v4,
                     state.IPV6: settings.entropy_v6},
            echo=NodeFlag.ECHO in flags,
            clamp_mss=NodeFlag.CLAMP_MSS in flags,
            pass_too_big=NodeFlag.PASS_TOO_BIG in flags,
            by_routes=NodeFlag.FIB in flags, icmp_rate=settings.icmp_rate,
            uplinks=[state.Uplink(
                uplink.ifindex, uplink.mtu, _mac(uplink.own_mac),
                {state.IPV4: _mac(uplink.next_hop_mac_v4),
                 state.IPV6: _mac(uplink.next_hop_mac_v6)}, uplink.vlans)
                for uplink in self.uplinks],
            choice={state.IPV4: list(self.choices.v4),
                    state.IPV6: list(self.choices.v6)})

    def vip(self, address: bytes) -> list[state.Service]:
        """Return the services of a VIP; empty if it is not a VIP."""
        if address not in self._vips:
            self._vips[address] = [self._service(key)
                                   for key in self._keys.get(address, ())]
        return self._vips[address]

    def _service(self, key):
        entry = self.services[key]
        settings = entry.settings
        states = {member.index: member
                  for member in self._inspection.members(key)}
        allowed = [ipaddress.ip_network(text)
                   for text in self._inspection.allowed(key)]
        service = state.Service(
            _packed(key.address), _protocol(key.protocol), key.port,
            entry.index, state.Encapsulation(settings.encapsulation),
            settings.dscp, settings.sid_function,
            by_source=ServiceFlag.SOURCE in settings.flags,
            quic=ServiceFlag.QUIC in settings.flags,
            second_chance=ServiceFlag.SECOND_CHANCE in settings.flags,
            source_length={state.IPV4: settings.source_length_v4,
                           state.IPV6: settings.source_length_v6},
            idle_timeout=settings.idle_timeout_s,
            new_flow_rate=settings.new_flow_rate,
            connection_limit=settings.connection_limit,
            sends_reset=ServiceFlag.RESET in settings.flags,
            new_flow_burst=settings.new_flow_burst,
            allowed=[(network.network_address.packed, network.prefixlen)
                     for network in allowed] or None,
            members={index: state.Member(
                _packed(member.address), member.weight, member.mtu,
                member.admin_up, member.healthy, member.backup,
                member.takes_flows, member.port, _tunnel(member.tunnel))
                for index, member in states.items()})
        self._states[service] = key, states
        return service

    def key(self, service: state.Service) -> Key:
        return self._states[service][0]

    def member_state(self, service: state.Service, index: int):
        """Return the MemberState of a member, or None."""
        return self._states[service][1].get(index)

    def interface(self, ifindex):
        return self._links.name(ifindex)
