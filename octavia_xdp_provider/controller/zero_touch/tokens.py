# SPDX-License-Identifier: Apache-2.0
"""Tokens: addresses that stand for members on proxy nodes.

A member of a load balancer has one token, which is the VIP in its entries on
hypervisors. It has it as long as it has a key, including those in quarantine;
so no table but that of keys has tokens, and no token is used again before
every proxy node has stopped using it and a quarantine is over.
"""

from collections.abc import Callable
from collections.abc import Iterable
import ipaddress
from typing import Any

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import tiers
from octavia_xdp_provider.controller.zero_touch import keys as keys_


class Tokens:
    """The networks of tokens.

    :param networks: ``[proxy] token_networks``.
    :param sources: ``[zero_touch] proxy_networks``.
    """

    def __init__(self, networks: Iterable[Any] = (),
                 sources: Iterable[Any] = ()) -> None:
        self._networks = list(networks)
        self.sources = list(sources)

    def problem(self, address: str) -> str:
        """Return why there can be no token for a member's address, or ''."""
        version = ipaddress.ip_address(address).version
        if not self._networks:
            return ('proxy nodes do not reach members through their '
                    'hypervisors: [proxy] token_networks is not set')
        if not self._of(version):
            return ('proxy nodes do not reach it through its hypervisor: '
                    f'[proxy] token_networks has no IPv{version} network')
        if not any(network.version == version for network in self.sources):
            return ('hypervisors do not accept packets of proxy nodes: '
                    f'[zero_touch] proxy_networks has no IPv{version} '
                    'network')
        return ''

    def _of(self, version: int) -> list[Any]:
        # The first and the last address of a network may have a meaning.
        return [network for network in self._networks
                if network.version == version and network.num_addresses > 2]

    def find(self, keys: keys_.Keys, document: spec.Document, pool_id: str,
             member_id: str) -> str | None:
        """Return a member's token, if it has one."""
        address = document['pools'][pool_id]['members'][member_id]['address']
        own = sorted((key.free_at is not None, key.vip)
                     for key in keys.of_balancer(document['id'])
                     if (key.listener_id, key.member_id)
                     == (pool_id, member_id) and self._has(key.vip, address))
        return own[0][1] if own else None

    def _has(self, token: str, address: str) -> bool:
        given = ipaddress.ip_address(token)
        return any(given in network for network in self._of(
            ipaddress.ip_address(address).version))

    def new(self, keys: keys_.Keys, address: str,
            draw: Callable[[int], int]) -> str | None:
        """Return a token for an address that nothing has; None: all networks
        are full.

        :param draw: returns a random number below its argument.
        """
        networks = self._of(ipaddress.ip_address(address).version)
        size = sum(network.num_addresses - 2 for network in networks)
        if sum(self._has(token, address) for token in keys.tokens()
               ) >= size:
            return None
        while True:
            token = _at(networks, draw(size))
            if token not in keys.tokens():
                return token


def _at(networks: list[Any], place: int) -> str:
    """Return the address at a place among all that can be tokens."""
    for network in networks:
        if place < network.num_addresses - 2:
            return str(network[place + 1])
        place -= network.num_addresses - 2
    raise IndexError(place)


def is_proxied(document: spec.Document, pool_id: str) -> bool:
    """Return whether proxy nodes send to the members of a pool."""
    return tiers.pool_cause(document, document['pools'][pool_id]) is not None


def judged_as(document: spec.Document, address: str) -> str:
    """Return the VIP as which a proxy's connections to a member count.

    :param address: of the member, of the IP version of a VIP.
    """
    version = ipaddress.ip_address(address).version
    return next(vip for vip in spec.vips(document)
                if ipaddress.ip_address(vip).version == version)
