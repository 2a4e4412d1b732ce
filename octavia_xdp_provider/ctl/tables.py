# SPDX-License-Identifier: Apache-2.0
"""A node's tables, read once."""

import functools
import ipaddress

from octavia_xdp_provider.ctl import links as links_
from octavia_xdp_provider.node.inspection import Inspection
from octavia_xdp_provider.node.types import Key
from octavia_xdp_provider.node.types import MemberState
from octavia_xdp_provider.node.types import Uplink


class Tables:
    """What explanations name. Members and allowed networks of a service are
    read on demand."""

    def __init__(self, inspection: Inspection, links: links_.Links) -> None:
        self._inspection = inspection
        self._links = links
        self.services = {service.index: service
                         for service in inspection.services()}
        self.settings = inspection.node_settings()
        self.uplinks, self.choices = inspection.uplinks()
        self.members = functools.cache(self._members)
        self.allowed = functools.cache(self._allowed)

    def version(self) -> object:
        """Return a value that changes with everything that is read here."""
        return (frozenset((service.key, service.generation)
                          for service in self.services.values()),
                self.settings, tuple(self.uplinks), self.choices)

    def keys(self, address: str) -> list[Key]:
        """Return the keys of a VIP's services; empty if it is not a VIP."""
        return [service.key for service in self.services.values()
                if service.key.address == address]

    def _members(self, key: Key) -> dict[int, MemberState]:
        """Return the MemberState of each member by its index."""
        return {member.index: member
                for member in self._inspection.members(key)}

    def _allowed(self, key: Key) -> list[
            ipaddress.IPv4Network | ipaddress.IPv6Network]:
        """Return the networks that may use a service; empty if all may."""
        return [ipaddress.ip_network(text)
                for text in self._inspection.allowed(key)]

    def uplink(self, ifindex: int) -> Uplink | None:
        return next((uplink for uplink in self.uplinks
                     if uplink.ifindex == ifindex), None)

    def interface(self, ifindex: int) -> str:
        return self._links.name(ifindex)
