# SPDX-License-Identifier: Apache-2.0
"""How a router spreads flows over nodes, and how many flows move to another
node when a node stops or starts.

Each node counts packets by VIP. With one flow for each VIP, this tells which
node a flow passes; otherwise figures are about VIPs rather than flows.
"""

from collections.abc import Mapping

from bench import errors
from bench.engine import context as contexts
from bench.engine import events
from bench.engine import figures
from bench.results import model as results
from bench.scenarios import model
from bench.software import interface as software

NEEDS_GENERATOR = True
# Packets by VIP, by node.
Counts = Mapping[str, Mapping[str, int]]


def seconds(measure: model.Measure) -> float:
    # Initially, and after a node has stopped and started.
    return 3 * (measure.seconds + 1)


def run(context: contexts.Context) -> list[figures.Figure]:
    if not isinstance(context.deployment, software.CountsByNode):
        raise errors.BenchError(
            f'{context.variant.name}: {context.software.name} does not count '
            'packets by VIP on each node')
    before, marks, lost = _phase(context)
    share = by_node(before)
    measured = [figures.Figure(
        'share', '1', results.LOWER, unevenness(share), marks,
        details={'packets': share, 'lost': lost,
                 'software': context.details()})]
    with events.Script(context) as script:
        for event in context.variant.events:
            script.do(event)
            after, marks, lost = _phase(context)
            measured.append(figures.Figure(
                f'moved, {event.text()}', '1', results.LOWER,
                moved(before, after), marks,
                details={'packets': by_node(after), 'lost': lost}))
            before = after
    return measured


def _phase(context):
    """Return (packets of the phase, marks, packets lost)."""
    first = context.deployment.packets_by_vip()
    done = context.traffic.measure(
        context.profile(), context.measure.rate, context.measure.seconds)
    last = context.deployment.packets_by_vip()
    return ({node: {vip: count - first.get(node, {}).get(vip, 0)
                    for vip, count in counts.items()}
             for node, counts in last.items()}, done.marks, done.lost)


def by_node(counts: Counts) -> dict[str, int]:
    return {node: sum(vips.values()) for node, vips in counts.items()}


def unevenness(share: Mapping[str, int]) -> float:
    """Return the largest share times the number of nodes in use; 1 is even.

    :raises BenchError: no node had a packet.
    """
    counts = [count for count in share.values() if count]
    if not counts:
        raise errors.BenchError('no node had a packet')
    return max(counts) * len(counts) / sum(counts)


def moved(before: Counts, after: Counts) -> float:
    """Return the share of flows that moved to another node, by shares of each
    VIP's packets."""
    vips = {vip for counts in before.values() for vip in counts}
    changed = known = 0.0
    for vip in vips:
        first, last = (_shares(counts, vip) for counts in (before, after))
        if first and last:
            known += 1
            changed += sum(max(0.0, share - last.get(node, 0.0))
                           for node, share in first.items())
    return changed / known if known else 0.0


def _shares(counts, vip):
    packets = {node: vips.get(vip, 0) for node, vips in counts.items()}
    total = sum(packets.values())
    return {node: count / total
            for node, count in packets.items()} if total else {}
