# SPDX-License-Identifier: Apache-2.0
"""Events of nodes with NAT, where only the node at which a flow began has it.
Nodes are drained as planned; finally one fails.
"""

import dataclasses
import sys

from bench.hitless import waves


@dataclasses.dataclass
class NatCounts(waves.Counts):
    """``drains``: nodes booted after all their connections had ended.
    ``broken_of_failed_nodes``: connections whose node lost its state; they are
    in no other count of broken ones.
    """

    drains: int = 0
    broken_of_failed_nodes: int = 0


class NatWaves(waves.Waves):
    """A node that has left keeps its connections, whose packets it gets from
    the others. It is booted after they have ended, and as many new connections
    are opened instead.
    """

    counts_type = NatCounts

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._of_failed = set()  # client ports of a failed node

    def _boot_one(self):
        """Boot no node: it would lose its flows."""

    def _is_beyond(self, _port, _begun):
        return False  # A flow keeps its member whatever happens to its slot.

    def _node_events(self):
        return (self._reshuffle, self._leave, self._restart, self._boot_left,
                self._join, self._replace, self._reshuffle, self._lose)

    def _boot_left(self):
        """End a planned drain: close the connections of the node that left,
        and boot it."""
        ports = self._away.client_ports()
        self._note(self._connections.close_ports(ports)['broken'])
        self._bed.wait_for_end_of_flows(self._away)
        self._bed.boot(self._away)
        self.counts.drains += 1
        self.open(len(ports))

    def _lose(self):
        """Let the node with most flows fail and return without them."""
        node = max(self._bed.nodes, key=lambda node: len(node.client_ports()))
        self._of_failed = node.client_ports()
        self._bed.boot(node)
        self._check()
        lost, self._of_failed = self._of_failed, set()
        self.open(len(lost))

    def _note(self, broken):
        for connection in broken:
            if connection['port'] in self._of_failed:
                self.counts.broken_of_failed_nodes += 1
                self._count_reason(f'of failed nodes: {connection["why"]}')
            elif connection['member'] not in self._dead:
                self._log_flows(connection)
        super()._note([connection for connection in broken
                       if connection['port'] not in self._of_failed])

    def _log_flows(self, connection):
        """Log the nodes' flows of a connection that should not have broken."""
        print(f'broken: {connection}; flows from its port: '
              f'{self._bed.flows_of(connection["port"])}', file=sys.stderr,
              flush=True)
