# SPDX-License-Identifier: Apache-2.0
"""Later fragments follow the first."""

from octavia_xdp_provider.packet_model import parse
from octavia_xdp_provider.packet_model import state


class Fragments:
    """Entries name a service by index, port and protocol: one that was made
    anew in the place of the old one is the same, for as long as fragments of
    a packet are under way. The program has room for a part of each VIP's, and
    for two minutes; here are those of less, and of less time."""

    def __init__(self):
        self.owner: dict[tuple, tuple[int, int, int, int]] = {}

    @staticmethod
    def _key(packet: parse.Packet) -> tuple:
        return (packet.source, packet.destination, packet.fragment_id,
                packet.fragment_protocol)

    def leave(self, packet: parse.Packet, service: state.Service,
              member: int):
        self.owner[self._key(packet)] = (service.index, service.protocol,
                                         service.port, member)

    def owner_of(self, packet: parse.Packet):
        """(service's index, protocol, port, member) of the first."""
        return self.owner.get(self._key(packet))

    def follow(self, packet: parse.Packet, services):
        """(service, member), or None where nothing useful was left."""
        found = self.owner_of(packet)
        if found is None:
            return None
        index, protocol, port, member = found
        service = services.get((packet.destination, protocol, port))
        if service is None or service.index != index:
            return None
        one = service.members.get(member)
        if one is None or not one.keeps_flows:
            return None
        return service, member


def guess(vip_services: list[state.Service], protocol: int):
    """The service that takes fragments whose first was not seen."""
    ports = [one for one in vip_services if one.protocol == protocol]
    return min(ports, key=lambda one: one.port) if ports else None
