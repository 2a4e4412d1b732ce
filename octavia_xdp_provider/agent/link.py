# SPDX-License-Identifier: Apache-2.0
"""The link of an LB node to the controller."""

from collections.abc import Callable
import time
from typing import Any

from octavia_xdp_provider.agent import nat as agent_nat
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.contracts import shape
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.process.agents import link
from octavia_xdp_provider.process.agents import reporting

# Interval of requests for the NAT peers.
PEERS_S = 3.0

_PEERS = shape.Shape(messages.NatPeersAnswer)


class Link(link.Link):
    """Fetches and reports, and asks for the NAT peers.

    :param nat: which gets its peers from here.
    :param added: called with ids of load balancers that are new to this node.
    """

    unreadable = datapath.DatapathError
    sender = 'node'

    def __init__(self, ends: reporting.Ends, interval_s: float,
                 failed: link.Failed = lambda kind: None,
                 nat: agent_nat.Nat | None = None,
                 added: Callable[[set[str]], None] = lambda ids: None
                 ) -> None:
        super().__init__(ends, interval_s, failed)
        self._nat = nat
        self._added = added
        if nat is not None and nat.is_wanted:
            self.ask_more_at = float('-inf')

    def added(self, ids: set[str]) -> None:
        if ids:
            self._added(ids)

    def unsupported(self) -> str:
        return ('The controller does not support the version of the '
                'interface for nodes that this node uses '
                f'({rpc.NODES_VERSIONS[-1]}, unless configured). '
                f'{rpc.pin("nodes", rpc.NODES_VERSIONS, "node")}.')

    def ask_more(self) -> None:
        now = time.monotonic()
        if self._nat is None or now < self.ask_more_at:
            return
        self.ask_more_at = now + PEERS_S
        answer = self._ends.controller.nat_peers(self._ends.host)
        _PEERS.check(answer, 'nat_peers')
        if self._nat.peers.want(**answer):
            self._worker.wake()

    def distrusted(self, held: dict[str, Any], problems: list[str]
                   ) -> dict[str, Any]:
        """Report each load balancer with an error and no member's state, so
        that nothing depends on this node.

        :param held: id → messages.Held.
        """
        if not problems:
            return held
        error = problems[0][:messages.TEXT_MAX]
        return {key: {**fact, 'error': fact['error'] or error,
                      'members': dict.fromkeys(fact['members'], 'unknown')}
                for key, fact in held.items()}
