# SPDX-License-Identifier: Apache-2.0
"""Ingress rules of security groups, as Neutron has them."""

from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from octavia_xdp_provider.controller.neutron_ports import findings

# Neutron's names of protocols that a load balancer can meet. Names of others
# let in nothing that comes from one.
_NUMBERS = {'icmp': 1, 'tcp': 6, 'udp': 17, 'icmpv6': 58, 'ipv6-icmp': 58,
            'sctp': 132}
_ICMPV6 = 58


def rules(groups: Iterable[Mapping[str, Any]]) -> tuple[findings.Rule, ...]:
    """What groups let in: each rule once, in an order that is always the same.
    """
    found = {rule for group in groups
             for row in group.get('security_group_rules') or ()
             if row['direction'] == 'ingress'
             and (rule := _rule(row)) is not None}
    return tuple(sorted(found, key=repr))


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


def _number(word: str, version: int) -> int | None:
    """The number of a protocol that Neutron names or numbers."""
    if word.isdecimal():
        return int(word)
    if word == 'icmp' and version == 6:
        # As Neutron itself reads it in a rule of IPv6.
        return _ICMPV6
    return _NUMBERS.get(word)
