# SPDX-License-Identifier: Apache-2.0
"""Which addresses the operator lets VIPs and members have."""

import dataclasses
import ipaddress

from octavia_xdp_provider.common import errors

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Multicast and what is beyond, which the datapath refuses.
_FIRST_RESERVED = ipaddress.IPv4Address('224.0.0.0')


@dataclasses.dataclass(frozen=True)
class AddressPolicy:
    """The operator's networks, and the addresses of the node that asks.

    :param vip_networks: ``[vip] allowed_networks``.
    :param denied_networks: ``[members] denied_networks``.
    :param own_addresses: texts; empty where no node is concerned.
    """

    vip_networks: tuple[Network, ...]
    denied_networks: tuple[Network, ...]
    own_addresses: frozenset[str] = frozenset()

    def vip_problem(self, text: str) -> errors.Problem | None:
        """Only VIPs inside the operator's networks may be announced.

        :raises ValueError: the text is no address.
        """
        address = ipaddress.ip_address(text)
        if problem := family_problem(address):
            return problem
        if any(address in network for network in self.vip_networks):
            return None
        allowed = ', '.join(map(str, self.vip_networks))
        return (f'{address} is outside the networks whose addresses the '
                'operator lets the LB nodes announce '
                f'({allowed or "none configured"})',
                'create the VIP on a subnet inside them')

    def member_problem(self, text: str) -> errors.Problem | None:
        """A member must not give access to the operator's own network.

        :raises ValueError: the text is no address.
        """
        address = ipaddress.ip_address(text)
        if problem := family_problem(address):
            return problem
        for network in self.denied_networks:
            if address in network:
                return (f'{address} lies in {network}, which the operator '
                        'does not let members be in', 'use another address')
        if not _is_of_host(address):
            return f'{address} is no address of a host', 'use another address'
        if str(address) in self.own_addresses:
            return (f'{address} is an address of an LB node',
                    'use the address of a server')
        return None


def family_problem(address: Address) -> errors.Problem | None:
    """What is wrong with an address that is not of one family only."""
    if not isinstance(address, ipaddress.IPv6Address):
        return None
    if address.scope_id:
        return (f'{address} has a zone, which means nothing to LB nodes',
                'leave the zone out')
    if address.ipv4_mapped:
        # It would be taken for the IPv4 address that it maps.
        return (f'{address} is an IPv4 address inside an IPv6 one',
                f'use {address.ipv4_mapped}')
    return None


def _is_of_host(address: Address) -> bool:
    if address.is_unspecified or address.is_multicast:
        return False
    return not (isinstance(address, ipaddress.IPv4Address)
                and address >= _FIRST_RESERVED)
