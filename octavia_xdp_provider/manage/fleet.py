# SPDX-License-Identifier: Apache-2.0
"""Figures of all LB nodes, or of the load balancers with the most traffic.

A view reads sums that the database computes, one row for each node, and the
rows of the load balancers that it shows.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import rows as rows_module
from octavia_xdp_provider.manage import node_state
from octavia_xdp_provider.manage import placement_state
from octavia_xdp_provider.manage import rates
from octavia_xdp_provider.process import output

Row = dict[str, Any]

NODES, LOAD_BALANCERS = 'nodes', 'load-balancers'
SUBJECTS = (NODES, LOAD_BALANCERS)
# Figures are sorted in descending order, names in ascending order.
ORDERS = ('bits', 'flows', 'drops', 'active', 'name')


class Fleet:
    """Build views from successive readings of the database.

    :param placement: the options of ``[placement]``.
    :param clock: returns seconds; see rates.Meter.
    """

    def __init__(self, store: queries.Store, placement: Any,
                 clock: Callable[[], float]) -> None:
        self._store = store
        self._placement = placement
        self._timeout_s = placement.node_timeout
        self._clock = clock
        self._meters = {subject: rates.Meter() for subject in SUBJECTS}

    def view(self, subject: str, order: str, limit: int) -> Row:
        """Return totals and rows, as a dictionary for JSON.

        :param limit: maximal number of rows.
        """
        figures = self._store.figures.count()
        if subject == NODES:
            sums = self._store.figures.traffic_of_nodes()
            names = [node.host for node in figures.nodes]
        else:
            sums = self._store.figures.traffic_of_load_balancers()
            names = list(sums)
        meter, now = self._meters[subject], self._clock()
        meter.add(now, sums)
        rows: list[Row] = [{
            'name': name, **_round_rate(meter.rate(name, now)),
                 'active': sums[name].active if name in sums else 0}
                for name in names]
        total = _sum_rows(rows)
        rows.sort(key=lambda row: row['name'] if order == 'name'
                  else (-(row[order] or 0), row['name']))
        rows = rows[:limit]
        if subject == NODES:
            _add_nodes(rows, {node.host: node for node in figures.nodes},
                       self._timeout_s)
        else:
            self._add_load_balancers(rows)
        return {'subject': subject, 'order': order,
                'load_balancers': figures.load_balancers,
                'in_one_zone': self._store.balance.in_one_zone(
                    rows_module.wanted(self._placement)),
                'changes_waiting': figures.due,
                'oldest_waiting_s': round(figures.due_s, 1),
                'total': total, 'number': len(names), 'rows': rows}

    def _add_load_balancers(self, rows: list[Row]) -> None:
        names = [row['name'] for row in rows]
        vips = {row.id: spec.vips(row.document)
                for row in self._store.load_balancers.select(names)}
        all_placements = placement_state.by_load_balancer(
            self._store.placements.select(names))
        for row in rows:
            placements = all_placements.get(row['name'], [])
            row['vips'] = vips.get(row['name'], [])
            row['nodes'] = sorted(placement.host for placement in placements)
            row['members'] = _count_members(placements)


def _round_rate(rate: rates.Rate | None) -> Row:
    if rate is None:
        return dict.fromkeys(('bits', 'flows', 'drops'))
    return {'bits': round(8 * rate.bytes), 'flows': round(rate.flows, 1),
            'drops': round(rate.drops, 1)}


def _sum_rows(rows: list[Row]) -> Row:
    """Sum the known values of each column; None if all are unknown."""
    return {name: round(sum(known), 1) if (known := [
        row[name] for row in rows if row[name] is not None]) else None
        for name in ('bits', 'flows', 'drops', 'active')}


def _count_members(placements: Iterable[rows_module.Placement]
                   ) -> list[int] | None:
    """Return [members up on some node, monitored members], or None if no node
    has reported any."""
    states: dict[str, str] = {}
    for placement in placements:
        for key, state in (placement.members or {}).items():
            if states.get(key) != 'up':
                states[key] = state
    return [sum(state == 'up' for state in states.values()),
            len(states)] if states else None


def _add_nodes(rows: list[Row], nodes: Mapping[str, Any], timeout_s: float
               ) -> None:
    for row in rows:
        node = nodes[row['name']]
        state = node.state
        checker = state.get('health_checker') or {}
        row |= {
            'condition': node.condition,
            'load_balancers': sum(count for state_name, count
                                  in node.placements.items()
                                  if state_name != 'leaving'),
            'behind': node.placements.get('behind', 0),
            'failing': node.placements.get('failing', 0),
            'lag': node.lag,
            'announced': state.get('announced'),
            'bgp': state.get('bgp_established'),
            'uplinks': node_state.uplinks(state),
            'members': [checker['up'], checker['checks']]
            if {'up', 'checks'} <= checker.keys() else None,
            'silence_s': None if node.silence_s is None
            else round(node.silence_s, 1),
            'problems': node_state.problems(state, node.silence_s, timeout_s)}


def head(view: Row) -> list[str]:
    """Return the lines above the table."""
    counts = view['load_balancers']
    total = {name: _short(value) for name, value in view['total'].items()}
    return [
        f'{counts["active"]} load balancers, {counts["pending"]} changing, '
        f'{counts["deleting"]} being deleted'
        + _in_one_zone(view['in_one_zone']) +
        f'; {view["changes_waiting"]} changes wait, the oldest for '
        f'{view["oldest_waiting_s"]} s',
        f'{view["number"]} {view["subject"].replace("-", " ")}: '
        f'{total["bits"]}bit/s, {total["flows"]} new flows/s, '
        f'{total["drops"]} drops/s, {total["active"]} active flows; by '
        f'{view["order"]}']


def _in_one_zone(numbers: Mapping[str, int]) -> str:
    zones = [zone or '(none)' for zone, number in sorted(numbers.items())
             if number]
    return (f', {sum(numbers.values())} in one zone only: '
            f'{", ".join(zones)}') if zones else ''


def headers(subject: str) -> str:
    if subject == NODES:
        return (f'{"NODE":20} {"CONDITION":10}{"BIT/S":>7}{"FLOWS/S":>8}'
                f'{"DROPS/S":>8}{"ACTIVE":>7}{"LBS":>7}{"VIPS":>7}{"LAG":>5}'
                f'{"FAIL":>5}{"BGP":>6}{"UPLINKS":>8}{"CHECKS UP":>14}'
                '  PROBLEMS')
    return (f'{"LOAD BALANCER":37}{"BIT/S":>7}{"FLOWS/S":>8}{"DROPS/S":>8}'
            f'{"ACTIVE":>7}{"MEMBERS":>9}{"NODES":>6}  VIPS')


def line(subject: str, row: Row) -> str:
    rate = (f'{_short(row["bits"]):>7}{_short(row["flows"]):>8}'
            f'{_short(row["drops"]):>8}{_short(row["active"]):>7}')
    if subject == LOAD_BALANCERS:
        return (f'{row["name"]:37}{rate}{_ratio(row["members"]):>9}'
                f'{len(row["nodes"]):>6}  {" ".join(row["vips"])}')
    return (f'{row["name"][:20]:20} {row["condition"]:10}{rate}'
            f'{_short(row["load_balancers"]):>7}'
            f'{_short(row["announced"]):>7}{_short(row["lag"]):>5}'
            f'{_short(row["failing"]):>5}{_ratio(row["bgp"]):>6}'
            f'{row["uplinks"]:>8}{_ratio(row["members"]):>14}  '
            f'{"; ".join(row["problems"]) or "-"}')


def _short(number: float | None) -> str:
    return '-' if number is None else output.short(number)


def _ratio(pair: Sequence[int] | None) -> str:
    return '-' if pair is None else f'{pair[0]}/{pair[1]}'
