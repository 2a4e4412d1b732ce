# SPDX-License-Identifier: Apache-2.0
"""What cannot be with forwarding nat, and which LB nodes can do it.

A node rewrites the addresses and ports of TCP and UDP in both directions,
from an address of its pools, of which there is one for each IP version that
members have.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import ipaddress
from typing import Any

from octavia_xdp_provider.common import address_policy
from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import flavor
from octavia_xdp_provider.common import messages
from octavia_xdp_provider.common import spec

# Seconds after which all nodes know what controllers know of them: they ask
# every 3 s (agent.link.PEERS_S), and answers are up to 2 s old.
OTHERS_S = 6.0

# What a node reports of itself, see messages.NodeState.
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
    """Whose share of ports flows are of. Where it is not known whose a load
    balancer is, it has one of its own."""
    return doc.get('project_id') or doc['id']


def versions(doc: spec.Document) -> list[int]:
    """IP versions of all members, each once."""
    return sorted({ipaddress.ip_address(member['address']).version
                   for pool in doc['pools'].values()
                   for member in pool['members'].values()})


def lack(pools: Iterable[str], wanted: Iterable[int]) -> str | None:
    """Why a node with these pools cannot reach members, or None.

    :param wanted: IP versions of the members; none is known yet where it is
        empty.
    """
    there = {ipaddress.ip_network(pool).version for pool in pools}
    if not there:
        return 'it has no [nat] pools'
    for version in wanted:
        if version not in there:
            return (f'its [nat] pools have no IPv{version} addresses, from '
                    f'which IPv{version} members are reached')
    return None


def node_problem(report: Report, doc: spec.Document) -> str | None:
    """Why a node must not be given a load balancer with forwarding nat."""
    problem = lack(pools(report), versions(doc))
    missing = (report.get('nat') or {}).get('unregistered')
    if problem and missing:
        return (f'{problem}; {", ".join(missing)} are not registered '
                '(octavia-xdp-manage node nat-pools)')
    return problem


def has_udp(doc: spec.Document) -> bool:
    """Whether nodes keep UDP flows of a load balancer. Those that do not
    know one ask the others for it only while flows are moved by plan, so
    nodes wait for OTHERS_S before they move any."""
    return flavor.is_nat(doc['flavor']) and any(
        listener['protocol'] == 'UDP'
        for listener in doc['listeners'].values())


def peers(reports: Mapping[str, Report]) -> list[messages.NatPeer]:
    """The nodes that hand packets of unknown flows on to each other.

    The packets between them have outer headers of one IP version: that of
    which most nodes have a pool, IPv4 if both. Of more nodes than there may
    be, those whose names come first.

    :param reports: of all nodes that are not dead, by host.
    """
    found: dict[int, list[messages.NatPeer]] = {4: [], 6: []}
    for host in sorted(reports):
        first: dict[int, str] = {}
        for pool in pools(reports[host]):
            network = ipaddress.ip_network(pool)
            first.setdefault(network.version, str(network[0]))
        for version, address in first.items():
            found[version].append({'host': host, 'address': address})
    most = max((4, 6), key=lambda version: len(found[version]))
    return found[most][:messages.NAT_PEERS_MAX]


def pools(report: Report) -> list[str]:
    """The pools that a node reports, in CIDR notation."""
    return list((report.get('nat') or {}).get('pools') or ())


def registered(report: Report, known: Iterable[str]) -> dict[str, Any]:
    """What a node reports, with those of its pools alone that lie in
    registered ones; the others are ``unregistered``.

    From a pool follows who is no member, and where all nodes send packets of
    unknown flows: it is not for a node to say.

    :param known: in CIDR notation.
    """
    reported = pools(report)
    if not reported:
        return dict(report)
    networks = [ipaddress.ip_network(text) for text in known]
    kept = [text for text in reported if any(
        _lies_in(ipaddress.ip_network(text), network)
        for network in networks)]
    found = {**report['nat'], 'pools': kept}
    if len(kept) < len(reported):
        found['unregistered'] = [text for text in reported
                                 if text not in kept]
    return {**report, 'nat': found}


def _lies_in(inner: address_policy.Network, outer: address_policy.Network
             ) -> bool:
    return (inner.version == outer.version
            and inner.subnet_of(outer))  # type: ignore[arg-type]
