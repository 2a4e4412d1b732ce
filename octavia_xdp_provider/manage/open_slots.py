# SPDX-License-Identifier: Apache-2.0
"""Where flows are about of members that have changed: open slots.

Without a second chance such flows are known to their own node alone, or go
elsewhere on a node that has closed the same slots: they break where routers
move them.
"""

from octavia_xdp_provider.controller import node_api
from octavia_xdp_provider.manage import command

# In place of a load balancer: of some that the node does not name.
OTHERS = '(others)'


def _reports(store, timeout_s):
    """(host, messages.OpenSlots) of all nodes that are heard."""
    now = store.now()
    for node in store.nodes():
        found = (node.state or {}).get('open_slots')
        if found and node_api.alive(node, timeout_s, now):
            yield node.host, found


def _open(reports):
    """(host, load balancer id or OTHERS, slots) in all reports."""
    for host, found in reports:
        for key, slots in found.get('load_balancers', {}).items():
            yield host, key, slots
        if found.get('more'):
            yield host, OTHERS, None


def unsettled(store, host, timeout_s):
    """Load balancers of a node whose flows would break if routers moved them
    to other nodes now, as texts with the node that has open slots of them.

    A change that a node's report does not reflect yet may open slots, too.
    """
    here = set(store.remaining(host))
    if not here:
        return []
    reports = dict(_reports(store, timeout_s))
    found = {f'{key} on {where}' for where, key, _ in _open(reports.items())
             if key in here or key == OTHERS}
    for key, where, generation in store.shared_with(host):
        # Older nodes do not say what their report reflects.
        as_of = reports.get(where, {}).get('as_of')
        if as_of is not None and as_of < generation:
            found.add(f'{key} on {where}, which has not reported since it '
                      'changed')
    return sorted(found)


class List(command.List):
    """List open slots of load balancers without a second chance, by node.

    Their flows break where routers move them to another node now: slots are
    open since members changed, until no flow of a former owner was seen for
    the idle timeout. "octavia-xdp-ctl show services" on the node shows them
    by listener. Each node reports within [agent] report_interval; "(others)"
    stands for load balancers that a node has and does not name.
    """

    def take_action(self, arguments):
        rows = _open(_reports(self.store(),
                              self.conf.placement.node_timeout))
        return ('host', 'load_balancer', 'open_slots'), sorted(
            rows, key=lambda row: (row[0], -(row[2] or 0), row[1]))
