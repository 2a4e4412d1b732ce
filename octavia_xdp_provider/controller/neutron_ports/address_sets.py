# SPDX-License-Identifier: Apache-2.0
"""Addresses that rules of security groups name by a group."""

from collections.abc import Iterable
import ipaddress

from octavia_xdp_provider.controller.neutron_ports import client


def find(neutron: client.Neutron, groups: Iterable[str],
         address_groups: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Networks in CIDR notation by id; none for what is not there.

    :param groups: of security groups: what their ports have, allowed address
        pairs too.
    :raises NeutronUnavailable: nothing is known then.
    """
    found: dict[str, set[str]] = {key: set() for key in (
        *groups, *address_groups)}
    for row in neutron.ports_of_groups(set(groups)):
        addresses = {one['ip_address'] for one in (
            *row['fixed_ips'], *(row.get('allowed_address_pairs') or ()))}
        for key in row.get('security_groups') or ():
            if key in found:
                found[key] |= addresses
    for row in neutron.address_groups(set(address_groups)):
        found[row['id']] |= set(row.get('addresses') or ())
    return {key: _collapsed(texts) for key, texts in found.items()}


def _collapsed(texts: Iterable[str]) -> tuple[str, ...]:
    networks = [ipaddress.ip_network(text, strict=False) for text in texts]
    v4 = [one for one in networks if isinstance(one, ipaddress.IPv4Network)]
    v6 = [one for one in networks if isinstance(one, ipaddress.IPv6Network)]
    return (*map(str, ipaddress.collapse_addresses(v4)),
            *map(str, ipaddress.collapse_addresses(v6)))
