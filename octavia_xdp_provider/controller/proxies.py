# SPDX-License-Identifier: Apache-2.0
"""Decides which proxy nodes LB nodes send a load balancer's connections to.

The result is ``proxies`` of the document (contracts/spec.py), which LB nodes
are sent as members of the proxied listeners (contracts/views.py). Each change
of it is a generation, which all nodes of the load balancer apply. So it
changes only if it must:

* After a change, proxy nodes that report are waited for, and join together.
* A proxy node that is silent or dead keeps its weight as long as it has
  applied the newest generation: the probes of LB nodes take it out within two
  seconds if its HAProxy does not answer either, and put it back. If the
  generation is newer, its HAProxy may answer and serve what is outdated, so
  it gets weight 0.
* Weight 0 becomes 1 only when the node has applied the newest generation. So
  the generation that this module causes does not undo itself.

All functions are pure.
"""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from collections.abc import Set
import dataclasses
from typing import NamedTuple

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import tiers
from octavia_xdp_provider.controller.scheduler import cluster as clusters
from octavia_xdp_provider.controller.store import rows

# Seconds after a change for which all proxy nodes that report are waited for.
JOIN_S = 2.0


class Decision(NamedTuple):
    """``is_change``: whether the document is to have other ``proxies``; None:
    none. ``again_in_s``: seconds until the next decision is due, or None if
    only an event can change it."""

    is_change: bool
    proxies: spec.Proxies | None = None
    again_in_s: float | None = None


@dataclasses.dataclass(frozen=True)
class Proxy:
    """A proxy node that is to have the load balancer.

    ``done``: it has applied the newest generation. ``error``: it failed to.
    ``leaving``: it drains or is to be replaced. ``weight``: that of the
    document; None if it has not joined.
    """

    host: str
    condition: clusters.Condition
    done: bool
    error: bool
    leaving: bool
    weight: int | None

    @property
    def reports(self) -> bool:
        return self.condition in clusters.REACHABLE

    @property
    def is_awaited(self) -> bool:
        """Whether it has yet to apply the newest generation, and will."""
        return self.reports and not self.done and not self.error

    def is_usable(self, is_late: bool) -> bool:
        """Return whether it may get new connections.

        :param is_late: whether it should have applied the generation by now.
        """
        if self.error or self.leaving:
            return False
        if self.done:
            return self.reports or bool(self.weight)
        return bool(self.weight) and self.reports and not is_late


def concerns(document: spec.Document) -> bool:
    """Return whether there is anything to decide."""
    return 'proxies' in document or tiers.needs_proxies(document)


def is_settled(document: spec.Document) -> bool:
    """Return whether LB nodes are sent all listeners that need proxies."""
    return not unserved(document)


def unserved(document: spec.Document) -> list[str]:
    """Return ids of listeners that need proxies and are not sent to them."""
    served = _served(document)
    return [key for key in tiers.proxied_listeners(document)
            if key not in served]


def excluded(document: spec.Document) -> set[str]:
    """Return the proxy nodes that get no new connections at present."""
    return {host for host, node in _nodes(document).items()
            if not node['weight']}


def replaced(document: spec.Document, proxies: spec.Proxies | None
             ) -> spec.Document:
    """Return a document with other proxies."""
    result = document.copy()
    result.pop('proxies', None)
    if proxies is not None:
        result['proxies'] = proxies
    return result


def describe(proxies: spec.Proxies | None) -> str:
    """Return a text for the log."""
    if proxies is None:
        return 'no proxy node serves it any more'
    return (f'{len(proxies["listeners"])} listeners are served by proxy nodes '
            + ', '.join(host if node['weight'] else
                        f'{host} (no new connections)'
                        for host, node in proxies['nodes'].items()))


def decide(document: spec.Document, generation: int,
           placements: Iterable[rows.Placement],
           conditions: Mapping[str, clusters.Condition],
           addresses: Mapping[str, Sequence[str]],
           age_s: float, patience_s: float) -> Decision:
    """Return the proxies that a document is to have.

    :param generation: of the document.
    :param placements: of the load balancer, on nodes of both roles.
    :param conditions: of the nodes; one without is dead.
    :param addresses: host → registered addresses of proxy nodes.
    :param age_s: seconds since the load balancer has changed.
    :param patience_s: seconds after which a proxy node that reports, but has
        not applied the change, gets no new connections.
    """
    placements = list(placements)
    proxied = set(tiers.proxied_listeners(document))
    is_late = age_s >= patience_s
    again_in_s = None if is_late else patience_s - age_s
    # Listeners that need proxies no more, until LB nodes have been told.
    leaving = _served(document) - proxied
    if is_late or _are_told(placements, generation, conditions):
        leaving = set()
    if not proxied:
        return (Decision(False, document['proxies'], again_in_s) if leaving
                else Decision('proxies' in document))
    nodes = _nodes(document)
    proxies = [_proxy(row, generation, conditions, nodes) for row in placements
               if row.role == rows.PROXY and row.removed_generation is None]
    is_awaited = any(proxy.is_awaited for proxy in proxies)
    if is_awaited and age_s < JOIN_S:
        return Decision(False, document.get('proxies'), JOIN_S - age_s)
    served = proxied | leaving
    decided = _decided(document, served, proxies, addresses, is_late)
    is_change = _differs(document, decided)
    if is_change:
        # This is a generation that silent nodes have not applied.
        decided = _decided(document, served, [
            dataclasses.replace(proxy, done=proxy.done and proxy.reports)
            for proxy in proxies], addresses, is_late)
    return Decision(is_change, decided,
                    again_in_s if is_awaited or leaving else None)


def _are_told(placements: Iterable[rows.Placement], generation: int,
              conditions: Mapping[str, clusters.Condition]) -> bool:
    """Return whether all LB nodes that report have applied a generation, or
    failed to."""
    return all(
        row.error or row.synced_generation >= generation
        for row in placements
        if row.role == rows.LB and row.removed_generation is None
        and conditions.get(row.host) in clusters.REACHABLE)


def _decided(document: spec.Document, wanted: Set[str],
             proxies: Sequence[Proxy], addresses: Mapping[str, Sequence[str]],
             is_late: bool) -> spec.Proxies | None:
    """:param wanted: listeners that proxy nodes are to serve."""
    weights = _weights(proxies, is_late)
    if not weights and 'proxies' not in document:
        return None
    listeners = _served(document) & wanted
    taken = [proxy for proxy in proxies if weights.get(proxy.host)]
    if taken and all(proxy.done for proxy in taken):
        listeners = set(wanted)
    result: spec.Proxies = {
        'nodes': {host: {'addresses': list(addresses.get(host, ())),
                         'weight': weight}
                  for host, weight in sorted(weights.items())},
        'listeners': sorted(listeners)}
    moving = {key: pool_id for key, pool_id in _moving(document).items()
              if key in wanted - listeners}
    if moving:
        result['moving'] = moving
    return result


def _differs(document: spec.Document, proxies: spec.Proxies | None) -> bool:
    """Return whether nodes have to be sent other proxies than a document's.

    Listeners that are gone are no reason.
    """
    before = document.get('proxies')
    if before is None or proxies is None:
        return before != proxies
    return (before['nodes'] != proxies['nodes']
            or _served(document) != set(proxies['listeners']))


def _nodes(document: spec.Document) -> Mapping[str, spec.ProxyNode]:
    return document['proxies']['nodes'] if 'proxies' in document else {}


def _moving(document: spec.Document) -> Mapping[str, str]:
    proxies = document.get('proxies')
    return {} if proxies is None else proxies.get('moving', {})


def _served(document: spec.Document) -> set[str]:
    """Return the existing listeners that LB nodes send to proxy nodes."""
    if 'proxies' not in document:
        return set()
    return document['listeners'].keys() & set(document['proxies']['listeners'])


def _proxy(row: rows.Placement, generation: int,
           conditions: Mapping[str, clusters.Condition],
           nodes: Mapping[str, spec.ProxyNode]) -> Proxy:
    return Proxy(
        row.host, conditions.get(row.host, clusters.Condition.DEAD),
        row.synced_generation >= generation and not row.error,
        bool(row.error), row.replace or row.draining_since is not None,
        nodes[row.host]['weight'] if row.host in nodes else None)


def _weights(proxies: Sequence[Proxy], is_late: bool) -> dict[str, int]:
    """Return host → weight of the proxy nodes that have joined, or join now.

    If none can be used, those that are not dead go on as before.
    """
    dead = clusters.Condition.DEAD
    for ends_wait in (is_late, False):
        usable = {proxy.host for proxy in proxies
                  if proxy.is_usable(ends_wait)}
        if any(proxy.host in usable and proxy.condition is not dead
               for proxy in proxies):
            return {proxy.host: int(proxy.host in usable) for proxy in proxies
                    if proxy.weight is not None or proxy.host in usable}
    # Something is better than nothing, even what leaves or fails.
    joined = [proxy for proxy in proxies if proxy.weight is not None]
    if all(proxy.condition is dead for proxy in joined):
        joined += [proxy for proxy in proxies
                   if proxy.weight is None and proxy.done and proxy.reports]
    alive = [proxy for proxy in joined if proxy.condition is not dead]
    if not alive:
        return {proxy.host: proxy.weight or 0 for proxy in joined}
    taken = {proxy.host for proxy in alive if proxy.weight} or {
        proxy.host for proxy in alive}
    return {proxy.host: int(proxy.host in taken | usable) for proxy in joined}
