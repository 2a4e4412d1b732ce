# SPDX-License-Identifier: Apache-2.0
"""Restrictions of forwarding nat, and which LB nodes can do it.

A node rewrites the addresses and ports of TCP and UDP in both directions, from
an address of its pools, of which it needs one per IP version of members.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import ipaddress
from typing import Any

from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import spec

# Seconds after which all nodes have what the controllers know about nodes:
# they ask every 3 s (agent.link.PEERS_S), and answers are up to 2 s old.
OTHERS_S = 6.0

# A node's own state, see messages.NodeState.
Report = Mapping[str, Any]


def check(doc: spec.Document) -> None:
    """:raises Refused: names the option."""
    if not flavor.is_nat(doc['flavor']):
        return
    for listener in doc['listeners'].values():
        if listener['protocol'] == 'SCTP':
            raise errors.Refused(
                'protocol', 'SCTP\'s checksum covers the whole packet, and '
                'its associations have several addresses: with forwarding '
                'nat it is not rewritten',
                'use TCP or UDP, or a flavor with forwarding tunnel')
    for pool in doc['pools'].values():
        if pool['session_persistence']:
            raise errors.Refused('session_persistence', *_BY_SOURCE)
        if pool['lb_algorithm'] == 'SOURCE_IP':
            raise errors.Refused('lb_algorithm', *_BY_SOURCE)


_BY_SOURCE = (
    'with forwarding nat a flow stays with its member because LB nodes keep '
    'it, and a client\'s flows are not kept together',
    'use SOURCE_IP_PORT without session persistence, or a flavor with '
    'forwarding tunnel')


def project(doc: spec.Document) -> str:
    """Return the project whose share of ports flows are charged to; the load
    balancer's own id if its project is unknown."""
    return doc.get('project_id') or doc['id']


def versions(doc: spec.Document) -> list[int]:
    """Return the IP versions of all members, sorted, each once."""
    return sorted({ipaddress.ip_address(member['address']).version
                   for pool in doc['pools'].values()
                   for member in pool['members'].values()})


def lack(pools: Iterable[str], wanted: Iterable[int]) -> str | None:
    """Return why a node with these pools cannot reach members, or None.

    :param wanted: IP versions of the members; empty if there are none yet.
    """
    available = {ipaddress.ip_network(pool).version for pool in pools}
    if not available:
        return 'it has no [nat] pools'
    for version in wanted:
        if version not in available:
            return (f'its [nat] pools have no IPv{version} addresses, from '
                    f'which IPv{version} members are reached')
    return None


def node_problem(report: Report, doc: spec.Document) -> str | None:
    """Return why a node must not be given a load balancer with forwarding
    nat, or None."""
    problem = lack(pools(report), versions(doc))
    missing = (report.get('nat') or {}).get('unregistered')
    if problem and missing:
        return (f'{problem}; {", ".join(missing)} are not registered '
                '(octavia-xdp-manage node nat-pools)')
    return problem


def has_udp(doc: spec.Document) -> bool:
    """Return whether nodes keep UDP flows of a load balancer. They ask each
    other for unknown ones only while flows are moved on purpose, so nodes wait
    OTHERS_S before they move any."""
    return flavor.is_nat(doc['flavor']) and any(
        listener['protocol'] == 'UDP'
        for listener in doc['listeners'].values())


def peers(reports: Mapping[str, Report]) -> list[messages.NatPeer]:
    """Return the nodes that forward packets of unknown flows to each other.

    The packets between them have outer headers of one IP version: the one in
    which more nodes have a pool, IPv4 in case of a tie. If there are too many
    nodes, the first ones by name are chosen.

    :param reports: of all nodes that are not dead, by host.
    """
    by_version: dict[int, list[messages.NatPeer]] = {4: [], 6: []}
    for host in sorted(reports):
        first: dict[int, str] = {}
        for pool in pools(reports[host]):
            network = ipaddress.ip_network(pool)
            first.setdefault(network.version, str(network[0]))
        for version, address in first.items():
            by_version[version].append({'host': host, 'address': address})
    most = max((4, 6), key=lambda version: len(by_version[version]))
    return by_version[most][:messages.NAT_PEERS_MAX]


def pools(report: Report) -> list[str]:
    """Return the pools that a node reports, in CIDR notation."""
    return list((report.get('nat') or {}).get('pools') or ())


def registered(report: Report, known: Iterable[str]) -> dict[str, Any]:
    """Return a node's report with only those of its pools that lie in
    registered ones; the others are ``unregistered``.

    A node must not choose its pools itself: their addresses cannot be members,
    and all nodes send packets of unknown flows to them.

    :param known: registered pools, in CIDR notation.
    """
    reported = pools(report)
    if not reported:
        return dict(report)
    networks = [ipaddress.ip_network(text) for text in known]
    kept = [text for text in reported if any(
        _lies_in(ipaddress.ip_network(text), network)
        for network in networks)]
    state = {**report['nat'], 'pools': kept}
    if len(kept) < len(reported):
        state['unregistered'] = [text for text in reported
                                 if text not in kept]
    return {**report, 'nat': state}


def _lies_in(inner: address_policy.Network, outer: address_policy.Network
             ) -> bool:
    return (inner.version == outer.version
            and inner.subnet_of(outer))  # type: ignore[arg-type]
