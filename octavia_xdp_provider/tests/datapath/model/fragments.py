# SPDX-License-Identifier: Apache-2.0
"""Later fragments follow the first."""

from octavia_xdp_provider.tests.datapath.model import parse
from octavia_xdp_provider.tests.datapath.model import state


class Fragments:

    def __init__(self):
        self.owner: dict[tuple, tuple[state.Service, int]] = {}

    @staticmethod
    def _key(packet: parse.Packet) -> tuple:
        return (packet.source, packet.destination, packet.fragment_id,
                packet.fragment_protocol)

    def leave(self, packet: parse.Packet, service: state.Service,
              member: int):
        self.owner[self._key(packet)] = (service, member)

    def follow(self, packet: parse.Packet, services):
        """(service, member), or None where nothing useful was left."""
        found = self.owner.get(self._key(packet))
        if found is None:
            return None
        service, index = found
        if service not in services:
            return None
        member = service.members.get(index)
        if member is None or not member.keeps_flows:
            return None
        return found


def guess(vip_services: list[state.Service], protocol: int):
    """The service that takes fragments whose first was not seen."""
    ports = [one for one in vip_services if one.protocol == protocol]
    return min(ports, key=lambda one: one.port) if ports else None
