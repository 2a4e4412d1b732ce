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


def _reported(store, timeout_s):
    """(host, load balancer id or OTHERS, slots) of all nodes that are heard.

    :param timeout_s: after so long a node is not heard any more.
    """
    now = store.now()
    for node in store.nodes():
        found = (node.state or {}).get('open_slots')
        if not found or not node_api.alive(node, timeout_s, now):
            continue
        for key, slots in found.get('load_balancers', {}).items():
            yield node.host, key, slots
        if found.get('more'):
            yield node.host, OTHERS, None


def unsettled(store, host, timeout_s):
    """Load balancers of a node whose flows would break if routers moved them
    to other nodes now, as texts with the node that has open slots of them."""
    here = set(store.remaining(host))
    if not here:
        return []
    return sorted(f'{key} on {where}'
                  for where, key, _ in _reported(store, timeout_s)
                  if key in here or key == OTHERS)


class List(command.List):
    """List open slots of load balancers without a second chance, by node.

    Their flows break where routers move them to another node now: slots are
    open since members changed, until no flow of a former owner was seen for
    the idle timeout. "octavia-xdp-ctl show services" on the node shows them
    by listener. Each node reports within [agent] report_interval; "(others)"
    stands for load balancers that a node has and does not name.
    """

    def take_action(self, arguments):
        rows = _reported(self.store(), self.conf.placement.node_timeout)
        return ('host', 'load_balancer', 'open_slots'), sorted(
            rows, key=lambda row: (row[0], -(row[2] or 0), row[1]))
