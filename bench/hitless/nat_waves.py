# SPDX-License-Identifier: Apache-2.0
"""What happens to nodes with NAT, each of which alone has the flows that began
at it: they are drained by plan, and in the end one fails.
"""

import dataclasses
import sys

from bench.hitless import waves


@dataclasses.dataclass
class NatCounts(waves.Counts):
    """``drains``: nodes that were left by all connections and then started
    anew. ``broken_of_failed_nodes``: connections whose node lost everything;
    these are in no other count of broken ones.
    """

    drains: int = 0
    broken_of_failed_nodes: int = 0


class NatWaves(waves.Waves):
    """A node that has left keeps its connections, whose packets come to it
    from the others, until they have ended; only then it is started anew. As
    many new ones begin in their place.
    """

    counts_type = NatCounts

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._of_failed = set()  # ports of the client

    def _boot_one(self):
        """Not with flows."""

    def _is_beyond(self, _port, _begun):
        return False  # A flow has one member, whatever becomes of its slot.

    def _node_events(self):
        return (self._reshuffle, self._leave, self._restart, self._boot_left,
                self._join, self._replace, self._reshuffle, self._lose)

    def _boot_left(self):
        """The end of a planned drain: the node that left has no flow any
        more, and loses what it knows."""
        ports = self._away.client_ports()
        self._note(self._connections.close_ports(ports)['broken'])
        self._bed.wait_for_end_of_flows(self._away)
        self._bed.boot(self._away)
        self.counts.drains += 1
        self.open(len(ports))

    def _lose(self):
        """The node with most flows fails, and is there again without them.
        """
        node = max(self._bed.nodes, key=lambda one: len(one.client_ports()))
        self._of_failed = node.client_ports()
        self._bed.boot(node)
        self._check()
        lost, self._of_failed = self._of_failed, set()
        self.open(len(lost))

    def _note(self, broken):
        for one in broken:
            if one['port'] in self._of_failed:
                self.counts.broken_of_failed_nodes += 1
                self._count_reason(f'of failed nodes: {one["why"]}')
            elif one['member'] not in self._dead:
                self._say_where(one)
        super()._note([one for one in broken
                       if one['port'] not in self._of_failed])

    def _say_where(self, one):
        """What nodes know of a connection that should not have broken."""
        print(f'broken: {one}; flows from its port: '
              f'{self._bed.flows_of(one["port"])}', file=sys.stderr,
              flush=True)
