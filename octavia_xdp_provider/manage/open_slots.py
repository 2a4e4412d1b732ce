# SPDX-License-Identifier: Apache-2.0
"""Open slots: where flows may still belong to the former owner of a slot.

Without a second chance only a flow's own node knows its member; another node,
which may have closed the same slot, sends it elsewhere. Such flows break when
routers move them.
"""

import argparse
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from octavia_xdp_provider.controller import node_api
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.manage import command

# A node, and its messages.OpenSlots.
Report = tuple[str, Mapping[str, Any]]

# Stands for the load balancers that a node's report does not list.
OTHERS = '(others)'


def _reports(store: queries.Store, timeout_s: float) -> Iterator[Report]:
    """Yield the reports of all live nodes."""
    now = store.database.now()
    for node in store.nodes.all():
        report = (node.state or {}).get('open_slots')
        if report and node_api.alive(node, timeout_s, now):
            yield node.host, report


def _rows(reports: Iterable[Report]
          ) -> Iterator[tuple[str, str, int | None]]:
    """Yield (host, load balancer id or OTHERS, number of open slots)."""
    for host, report in reports:
        for key, slots in report.get('load_balancers', {}).items():
            yield host, key, slots
        if report.get('more'):
            yield host, OTHERS, None


def unsettled(store: queries.Store, host: str, timeout_s: float) -> list[str]:
    """Return texts that name load balancers of a node, and where they have
    open slots: their flows would break if routers moved them now.

    A change that a node's report does not reflect yet may open slots, too.
    """
    local_ids = set(store.placements.remaining(host))
    if not local_ids:
        return []
    reports = dict(_reports(store, timeout_s))
    texts = {f'{key} on {node}' for node, key, _ in _rows(reports.items())
             if key in local_ids or key == OTHERS}
    for key, node, generation in store.placements.shared_with(host):
        # One that has not reported yet forwards nothing that is known.
        as_of = reports.get(node, {}).get('as_of')
        if as_of is not None and as_of < generation:
            texts.add(f'{key} on {node}, which has not reported since it '
                      'changed')
    return sorted(texts)


class List(command.List):
    """List open slots of load balancers without a second chance, by node.

    Flows in open slots break if routers move them to another node. A slot is
    open from a change of members until no flow of the former owner was seen
    for the idle timeout. "octavia-xdp-ctl show services" on the node lists
    open slots by listener. Each node reports within [agent] report_interval;
    "(others)" stands for load balancers that its report does not list.
    """

    def take_action(self, arguments: argparse.Namespace) -> command.Table:
        rows = _rows(_reports(self.store(),
                              self.conf.placement.node_timeout))
        return ('host', 'load_balancer', 'open_slots'), sorted(
            rows, key=lambda row: (row[0], -(row[2] or 0), row[1]))
