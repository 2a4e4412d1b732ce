# SPDX-License-Identifier: Apache-2.0
"""The reported state of each load balancer, updated incrementally.

An unchanged entry stays the same object, so the reporter sees by identity
that there is nothing to report.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Set

from octavia_xdp_provider.agent import forwarding
from octavia_xdp_provider.agent import plans as agent_plans
from octavia_xdp_provider.agent import tables as agent_tables
from octavia_xdp_provider.agent import totals
from octavia_xdp_provider.contracts import history as history_messages
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.node import types
from octavia_xdp_provider.process.agents.wanted import Entry

Services = list[tuple[types.Key, types.Summary]]
Traffic = list[tuple[str, str, types.Key, types.Summary]]


class Facts:
    """Derives reports from plans and tables, in the worker's thread.

    :ivar held: id → messages.Held. Replaced, never modified.
    :ivar as_of: generation of the fetch that the tables reflect.
    """

    def __init__(self, plans: agent_plans.Plans, tables: agent_tables.Tables,
                 history: Callable[[str], history_messages.History]
                 = lambda _id: {}) -> None:
        """:param history: returns history.History of a load balancer id."""
        self._plans = plans
        self._history = history
        self._tables = tables
        self._announced: frozenset[str] = frozenset()  # addresses
        self._errors: dict[str, str] = {}
        self.held: dict[str, messages.Held] = {}
        self.as_of = 0

    def update(self, entries: Mapping[str, Entry], ids: Iterable[str],
               errors: dict[str, str], announced: frozenset[str],
               leaving: Set[str] = frozenset()) -> None:
        """Update the entries of load balancers that may have changed.

        :param entries: id → (generation, document), of all load balancers.
        :param ids: those with changes that the other arguments do not show.
        :param errors: id → why it is not as wanted.
        :param announced: the announced addresses.
        :param leaving: ids of load balancers with services that are about to
            be deleted. Their entries do not change.
        """
        ids = set(ids)
        ids |= {key for key in errors.keys() | self._errors.keys()
                if errors.get(key) != self._errors.get(key)}
        moved = announced ^ self._announced
        if moved:
            ids |= {key for key, plan in self._plans.plans.items()
                    if any(name.address in moved for name in plan.services)}
        self._errors, self._announced = errors, announced
        ids -= leaving
        staying = entries.keys() | (self.held.keys() & leaving)
        if not ids and self.held.keys() == staying:
            return
        held = {key: fact for key, fact in self.held.items()
                if key in staying}
        for key in ids | (entries.keys() - held.keys()):
            if key in entries:
                fact = self._fact_of(key, entries[key][0], errors.get(key))
                if held.get(key) != fact:
                    # Changed entries move to the end, see reports.Facts.
                    held.pop(key, None)
                    held[key] = fact
        self.held = held

    def _fact_of(self, key: str, generation: int, error: str | None
                 ) -> messages.Held:
        plan = self._plans.plans.get(key)
        if error and len(error) > messages.TEXT_MAX:
            error = f'{error[:messages.TEXT_MAX - 1]}…'
        vips = {name.address for name in plan.services} if plan else ()
        history = self._history(key)
        held: messages.Held = {
            'generation': generation, 'error': error,
            'members': {} if plan is None else {
                member_id: _state(self._tables.members(name).get(member),
                                  member_id in plan.moving)
                for member_id, (name, member) in plan.monitored.items()},
            'announced': bool(vips) and self._announced.issuperset(vips)}
        if history:
            held['history'] = history
        return held

    def counters(self) -> dict[str, dict[str, messages.Counters]]:
        """Return id → listener id → messages.Counters. For any thread."""
        services = self._tables.services
        return {
            load_balancer_id: {
                listener_id: self._counters(plan, [
                    (key, services[key]) for key in keys if key in services])
                for listener_id, keys in plan.listeners.items()
                if services.keys() & keys}
            # Iterate over a copy: the worker's thread changes the plans.
            for load_balancer_id, plan in list(self._plans.plans.items())}

    def _counters(self, plan: forwarding.Plan, services: Services
                  ) -> messages.Counters:
        """Sum the counters of a listener's services.

        Flows of a VIP that is not announced are not active here: other nodes
        may count them by now. Flows by NAT stay on this node and count.
        """
        is_nat = plan.nat_project is not None
        summed: messages.Counters = {
            'bytes': sum(summary.bytes for _, summary in services),
            'flows': sum(summary.flows for _, summary in services),
            'drops': sum(summary.drops for _, summary in services),
            'active': sum(summary.active for key, summary in services
                          if is_nat or key.address in self._announced)}
        if is_nat:
            summed['bytes_out'] = sum(
                summary.reply_bytes for _, summary in services)
        return summed

    def nat_flows(self) -> dict[str, int]:
        """Return project → live flows by NAT. For any thread."""
        services = self._tables.services
        flows: dict[str, int] = {}
        for plan in list(self._plans.plans.values()):
            if plan.nat_project is not None:
                flows[plan.nat_project] = flows.get(plan.nat_project, 0) + sum(
                    services[key].active for key in plan.services
                    if key in services)
        return flows

    def traffic(self) -> Traffic:
        """Return the counters of each service for metrics. For any thread.

        Unlike ``counters`` nothing is summed: the counters of one service
        only grow while it exists, but a sum falls when a service is deleted.

        :returns: list of (load balancer id, listener id, datapath.Key,
            datapath.Summary). ``active`` is 0 if ``counters`` ignores it.
        """
        services, announced = self._tables.services, self._announced
        rows = []
        for load_balancer_id, plan in list(self._plans.plans.items()):
            for listener_id, keys in plan.listeners.items():
                for key in keys:
                    summary = services.get(key)
                    if summary is None:
                        continue
                    if (key.address not in announced
                            and plan.nat_project is None):
                        summary = summary._replace(active=0)
                    rows.append((load_balancer_id, listener_id, key, summary))
        return rows

    def total(self) -> totals.Total:
        """Return totals.Total of the node. For any thread."""
        return self._tables.totals.now()

    def open_slots(self) -> messages.OpenSlots:
        """Return the open slots of the node. For any thread."""
        as_of = self.as_of  # read first, so that the tables are no older
        services = self._tables.services
        open_slots = {}
        for load_balancer_id, plan in list(self._plans.plans.items()):
            slots = sum(services[key].open_slots for key in plan.services
                        if key in services
                        and not services[key].second_chance)
            if slots:
                open_slots[load_balancer_id] = slots
        ids = sorted(open_slots, key=lambda key: (-open_slots[key], key))[
            :messages.OPEN_SLOTS_MAX]
        return {'slots': sum(summary.open_slots
                             for summary in services.values()),
                'load_balancers': {key: open_slots[key] for key in ids},
                'more': len(open_slots) - len(ids), 'as_of': as_of}

    def active_flows(self) -> dict[str, int]:
        """Return transport protocol → live flows of all services that have
        an announced VIP or use NAT. For any thread."""
        flows = dict.fromkeys(types.PROTOCOLS, 0)
        announced = self._announced
        nat_keys = {key for plan in list(self._plans.plans.values())
                    if plan.nat_project is not None for key in plan.services}
        for key, summary in self._tables.services.items():
            if key.address in announced or key in nat_keys:
                flows[key.protocol] += summary.active
        return flows


def _state(member: types.MemberState | None, moves: bool
           ) -> messages.MemberState:
    if member is None:
        return 'unknown'
    # A moving member gets new checks: until one of them has a result, the
    # member keeps the state that its traffic follows.
    if not member.known and not (moves and member.healthy):
        return 'unknown'
    return 'up' if member.healthy else 'down'
