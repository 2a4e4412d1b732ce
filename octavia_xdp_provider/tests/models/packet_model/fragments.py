# SPDX-License-Identifier: Apache-2.0
"""Later fragments follow the first one."""

from octavia_xdp_provider.tests.models.packet_model import parse
from octavia_xdp_provider.tests.models.packet_model import state


class Fragments:
    """Members of first fragments. Entries refer to a service by index, port
    and protocol, so a recreated one in the same place counts as the same. The
    program limits entries of a VIP and their age, the model does neither."""

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

    def forget(self, key: tuple):
        self.owner.pop(key, None)

    def owner_of(self, packet: parse.Packet):
        """Return (service's index, protocol, port, member) of the first."""
        return self.owner.get(self._key(packet))

    def follow(self, packet: parse.Packet, services):
        """Return (service, member); None if unknown or unusable."""
        owner = self.owner_of(packet)
        if owner is None:
            return None
        index, protocol, port, member_index = owner
        service = services.get((packet.destination, protocol, port))
        if service is None or service.index != index:
            return None
        member = service.members.get(member_index)
        if member is None or not member.keeps_flows:
            return None
        return service, member_index


def guess(vip_services: list[state.Service], protocol: int):
    """Return the service for fragments whose first was not seen."""
    same = [service for service in vip_services
            if service.protocol == protocol]
    return min(same, key=lambda service: service.port) if same else None
