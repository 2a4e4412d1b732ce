# SPDX-License-Identifier: Apache-2.0
"""The nodes as one decision of the scheduler sees them."""

import enum

from octavia_xdp_provider.common import ages


class Condition(enum.Enum):
    """Whether a node may get and keep load balancers."""

    LIVE = 'live'          # reports
    SILENT = 'silent'      # keeps what it has: it may be back in a moment
    DEAD = 'dead'          # is replaced
    DISABLED = 'disabled'  # taken out of service by the operator
    DRAINING = 'draining'  # the same, and its routes are a last resort


class Host:
    """A node, and what this decision has given to it.

    ``died_or_back_at``: seconds since the epoch by the database's clock, or 0.
    ``load_balancers`` counts placements, ``services`` entries of the node's
    tables: those that the node reported and those of this decision.
    """

    def __init__(self, node, condition, load_balancers):
        self.name = node.host
        self.condition = condition
        self.died_or_back_at = node.died_or_back_at or 0.0
        self.report = node.state or {}
        self.load_balancers = load_balancers
        self.services = self.report.get('services', 0)


class Cluster:
    """All nodes by their names."""

    def __init__(self, nodes, load, conditions):
        """:param load: host → load balancers that it has; 0 if left out.

        :param conditions: host → Condition.
        """
        self.hosts = {node.host: Host(node, conditions[node.host],
                                      load.get(node.host, 0))
                      for node in nodes}

    def condition(self, name):
        """DEAD also for a node that was forgotten."""
        host = self.hosts.get(name)
        return host.condition if host else Condition.DEAD

    def settled_in_s(self, now, settle_s):
        """Seconds until it is likely that no more nodes die or come back, or
        0.

        Several nodes that died are likely to have lost something that they
        share, and come back one after the other.

        :param now: as of Host.died_or_back_at.
        :param settle_s: how long a change keeps others likely.
        """
        died, back = ([host.died_or_back_at for host in self.hosts.values()
                       if (host.condition is Condition.DEAD) is dead]
                      for dead in (True, False))
        moments = (died if len(died) > 1 else []) + (back if died else [])
        return max([0, *(ages.left(moment, settle_s, now)
                         for moment in moments)])

    def add(self, name, services):
        """Account for a load balancer that a host is given."""
        self.hosts[name].load_balancers += 1
        self.hosts[name].services += services

    def remove(self, name):
        if name in self.hosts:
            self.hosts[name].load_balancers -= 1
            # Its table entries are free only once the node reports so.


# Those that are heard, and do what they shall with what they still have.
HEARD = frozenset((Condition.LIVE, Condition.DISABLED, Condition.DRAINING))


def condition(silence_s, in_service, live_s, dead_s, draining=False):
    """The Condition of a node.

    :param silence_s: see Liveness.silence_s.
    :param in_service: the operator's word.
    :param live_s: up to so many seconds of silence a node is LIVE.
    :param dead_s: from so many on it is DEAD.
    :param draining: the operator's word for one that is not in service.
    """
    if silence_s > dead_s:
        return Condition.DEAD
    if not in_service:
        return Condition.DRAINING if draining else Condition.DISABLED
    return Condition.LIVE if silence_s <= live_s else Condition.SILENT


def conditions(stored):
    """Conditions by host, from what is stored.

    A node that the leader has not looked at keeps what it has, and is given
    nothing yet.
    """
    return {host: Condition(value) if value else Condition.SILENT
            for host, value in stored.items()}
