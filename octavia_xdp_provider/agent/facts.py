# SPDX-License-Identifier: Apache-2.0
"""What is reported of each load balancer, kept up with what changes.

An entry that is the same stays the same object, by which the reporter sees
at once that there is nothing to report.
"""

from octavia_xdp_provider.common import messages
from octavia_xdp_provider.node import types


class Facts:
    """Belongs to the worker's thread.

    :ivar held: id → messages.Held.
    """

    def __init__(self, plans, tables, history=lambda _id: {}):
        """:param history: gives history.History of a load balancer."""
        self._plans = plans
        self._history = history
        self._tables = tables
        self._announced = frozenset()  # addresses
        self._errors = {}
        self.held = {}

    def update(self, entries, ids, errors, announced, leaving=frozenset()):
        """Look at some load balancers, and at those that it shows.

        :param entries: id → (generation, document), of all.
        :param ids: of those of which something else has changed.
        :param errors: id → why it is not as wanted.
        :param announced: addresses that are announced.
        :param leaving: ids of those of which something is about to go: they
            are reported as before.
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
        held = {key: one for key, one in self.held.items() if key in staying}
        for key in ids | (entries.keys() - held.keys()):
            if key in entries:
                one = self._of(key, entries[key][0], errors.get(key))
                if held.get(key) != one:
                    # At the end, as reports.Facts has it.
                    held.pop(key, None)
                    held[key] = one
        self.held = held

    def _of(self, key, generation, error):
        plan = self._plans.plans.get(key)
        if error and len(error) > messages.TEXT_MAX:
            error = f'{error[:messages.TEXT_MAX - 1]}…'
        vips = {name.address for name in plan.services} if plan else ()
        history = self._history(key)
        return {
            **({'history': history} if history else {}),
            'generation': generation, 'error': error,
            'members': {} if plan is None else {
                member_id: _state(self._tables.members(name).get(member),
                                  member_id in plan.moving)
                for member_id, (name, member) in plan.monitored.items()},
            'announced': bool(vips) and self._announced.issuperset(vips)}

    def counters(self):
        """Load balancer id → listener id → messages.Counters. For any
        thread."""
        services = self._tables.services
        return {
            load_balancer_id: {
                listener_id: self._counters(plan, [
                    (key, services[key]) for key in keys if key in services])
                for listener_id, keys in plan.listeners.items()
                if services.keys() & keys}
            # A copy: the worker goes on planning.
            for load_balancer_id, plan in list(self._plans.plans.items())}

    def _counters(self, plan, services):
        """The sum over a listener's services, (key, datapath.Summary).

        Flows of a VIP that is not announced are other nodes' by now, or
        nobody's: they are not counted twice. Those of NAT stay with their
        node, which alone has them.
        """
        summed = {name: sum(getattr(one, name) for _, one in services)
                  for name in ('bytes', 'flows', 'drops')}
        if plan.nat_project is not None:
            return summed | {
                'active': sum(one.active for _, one in services),
                'bytes_out': sum(one.reply_bytes for _, one in services)}
        return summed | {'active': sum(
            one.active for key, one in services
            if key.address in self._announced)}

    def nat_flows(self):
        """Project → flows of NAT that are alive. For any thread."""
        services = self._tables.services
        found = {}
        for plan in list(self._plans.plans.values()):
            if plan.nat_project is not None:
                found[plan.nat_project] = found.get(plan.nat_project, 0) + sum(
                    services[key].active for key in plan.services
                    if key in services)
        return found

    def traffic(self):
        """What each service has counted, for metrics. For any thread.

        Unlike ``counters`` nothing is summed: a service's counters only grow
        while it is there, a sum would fall with the first that goes.

        :returns: a list of (load balancer id, listener id, datapath.Key,
            datapath.Summary); ``active`` is 0 as in ``counters``.
        """
        services, announced = self._tables.services, self._announced
        found = []
        for load_balancer_id, plan in list(self._plans.plans.items()):
            for listener_id, keys in plan.listeners.items():
                for key in keys:
                    one = services.get(key)
                    if one is None:
                        continue
                    if (key.address not in announced
                            and plan.nat_project is None):
                        one = one._replace(active=0)
                    found.append((load_balancer_id, listener_id, key, one))
        return found

    def total(self):
        """totals.Total of the node. For any thread."""
        return self._tables.totals.now()

    def open_slots(self):
        """messages.OpenSlots but ``as_of``. For any thread."""
        services = self._tables.services
        found = {}
        for load_balancer_id, plan in list(self._plans.plans.items()):
            slots = sum(services[key].open_slots for key in plan.services
                        if key in services
                        and not services[key].second_chance)
            if slots:
                found[load_balancer_id] = slots
        named = sorted(found, key=lambda key: (-found[key], key))[
            :messages.OPEN_SLOTS_MAX]
        return {'slots': sum(one.open_slots for one in services.values()),
                'load_balancers': {key: found[key] for key in named},
                'more': len(found) - len(named)}

    def active_flows(self):
        """Transport protocol → flows that are alive, of all services whose
        VIP is announced, or that have NAT. For any thread."""
        found = dict.fromkeys(types.PROTOCOLS, 0)
        announced = self._announced
        own = {key for plan in list(self._plans.plans.values())
               if plan.nat_project is not None for key in plan.services}
        for key, one in self._tables.services.items():
            if key.address in announced or key in own:
                found[key.protocol] += one.active
        return found


def _state(member, moves):
    if member is None:
        return 'unknown'
    # Where it goes its checks are others: until one of them has reported it
    # takes traffic as it did.
    if not member.known and not (moves and member.healthy):
        return 'unknown'
    return 'up' if member.healthy else 'down'
