# SPDX-License-Identifier: Apache-2.0
"""Converts ingress rules of Neutron's security groups."""

from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from octavia_xdp_provider.controller.neutron_ports import findings

# Neutron's names of protocols that load balancers use. Rules of others do not
# concern them.
_NUMBERS = {'icmp': 1, 'tcp': 6, 'udp': 17, 'icmpv6': 58, 'ipv6-icmp': 58,
            'sctp': 132}
_ICMPV6 = 58


def rules(groups: Iterable[Mapping[str, Any]]) -> tuple[findings.Rule, ...]:
    """Return the groups' distinct ingress rules, in a stable order."""
    distinct = {rule for group in groups
                for row in group.get('security_group_rules') or ()
                if row['direction'] == 'ingress'
                and (rule := _rule(row)) is not None}
    return tuple(sorted(distinct, key=repr))


def _rule(row: Mapping[str, Any]) -> findings.Rule | None:
    version = 6 if row.get('ethertype') == 'IPv6' else 4
    protocol = None
    if row.get('protocol') not in (None, '', 'any'):
        protocol = _number(str(row['protocol']), version)
        if protocol is None:
            return None
    first, last = row.get('port_range_min'), row.get('port_range_max')
    return findings.Rule(
        version, protocol,
        None if first is None and last is None else (first, last),
        row.get('remote_ip_prefix'), row.get('remote_group_id'),
        row.get('remote_address_group_id'))


def _number(protocol: str, version: int) -> int | None:
    """Return the number of a protocol's name or number, None if unknown."""
    if protocol.isdecimal():
        return int(protocol)
    if protocol == 'icmp' and version == 6:
        # Neutron's own interpretation in a rule of IPv6.
        return _ICMPV6
    return _NUMBERS.get(protocol)
