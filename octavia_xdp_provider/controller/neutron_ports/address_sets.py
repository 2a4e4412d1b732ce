# SPDX-License-Identifier: Apache-2.0
"""Looks up the addresses of groups that security group rules refer to."""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sized
import ipaddress

from oslo_log import log as logging

from octavia_xdp_provider.contracts import host_spec
from octavia_xdp_provider.controller.neutron_ports import client

LOG = logging.getLogger(__name__)


def find(neutron: client.Neutron, groups: Iterable[str],
         address_groups: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return id → networks in CIDR notation; none for unknown groups.

    :param groups: ids of security groups, whose networks are the addresses
        of their ports, including allowed address pairs.
    :raises NeutronUnavailable: Neutron did not answer.
    """
    sets: dict[str, set[str]] = {key: set() for key in (
        *groups, *address_groups)}
    for row in neutron.ports_of_groups(set(groups)):
        addresses = {fixed['ip_address'] for fixed in (
            *row['fixed_ips'], *(row.get('allowed_address_pairs') or ()))}
        for key in row.get('security_groups') or ():
            if key in sets:
                sets[key] |= addresses
    for row in neutron.address_groups(set(address_groups)):
        sets[row['id']] |= set(row.get('addresses') or ())
    return {key: _collapse(texts) for key, texts in sets.items()}


def log_too_large(sets: Mapping[str, Sized], before: Mapping[str, Sized]
                  ) -> None:
    """Log the sets that have more networks than a hypervisor supports, and
    another number than before."""
    for key, networks in sets.items():
        if len(networks) > host_spec.ADDRESSES_MAX and (
                len(networks) != len(before.get(key, ()))):
            LOG.warning(
                'Group %s, which rules of security groups name, has %s '
                'networks, and a hypervisor supports %s: clients in the '
                'others are refused. Name networks in the rules instead, or '
                'make the group smaller.', key, len(networks),
                host_spec.ADDRESSES_MAX)


def _collapse(texts: Iterable[str]) -> tuple[str, ...]:
    networks = [ipaddress.ip_network(text, strict=False) for text in texts]
    v4 = [each for each in networks if isinstance(each, ipaddress.IPv4Network)]
    v6 = [each for each in networks if isinstance(each, ipaddress.IPv6Network)]
    return (*map(str, ipaddress.collapse_addresses(v4)),
            *map(str, ipaddress.collapse_addresses(v6)))
