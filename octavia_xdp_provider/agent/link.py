# SPDX-License-Identifier: Apache-2.0
"""The link of an LB node to the controller."""

import time

from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.contracts import shape
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.process import link

# Interval of requests for the NAT peers.
PEERS_S = 3.0

_PEERS = shape.Shape(messages.NatPeersAnswer)


class Link(link.Link):
    """Adds the NAT peers to process.link.Link.

    :param controller: rpc.NodesClient.
    :param worker: worker.Worker.
    :param state: node_state.NodeState.
    :param files: run_directory.RunDirectory.
    :param nat: nat.Nat, which gets its peers from here.
    :param added: called with ids of load balancers that are new to this node.
    """

    unreadable = datapath.DatapathError

    def __init__(self, *arguments, nat=None, added=lambda ids: None, **more):
        super().__init__(*arguments, **more)
        self._nat = nat
        self._added = added
        if nat is not None and nat.is_wanted:
            self.ask_more_at = float('-inf')

    def added(self, ids):
        if ids:
            self._added(ids)

    def ask_more(self):
        now = time.monotonic()
        if now < self.ask_more_at:
            return
        self.ask_more_at = now + PEERS_S
        answer = self._controller.nat_peers(self._host)
        _PEERS.check(answer, 'nat_peers')
        if self._nat.want_peers(**answer):
            self._worker.wake()

    def complain(self, error):
        if rpc.is_unsupported_version(error):
            return ('The controller does not support the version of the '
                    'interface for nodes that this node uses '
                    f'({rpc.NODES_VERSIONS[-1]}, unless configured). '
                    f'{rpc.pin("nodes", rpc.NODES_VERSIONS, "node")}.')
        if rpc.is_refused(error):
            return f'The controller refuses a message of this node: {error}'
        return super().complain(error)

    def distrusted(self, held, problems):
        return distrusted(held, problems)


def distrusted(held, problems):
    """Return the report of a node with problems: each load balancer has an
    error and no member's state is known, so nothing depends on this node.

    :param held: id → messages.Held.
    """
    if not problems:
        return held
    error = problems[0][:messages.TEXT_MAX]
    return {key: {**fact, 'error': fact['error'] or error,
                  'members': dict.fromkeys(fact['members'], 'unknown')}
            for key, fact in held.items()}
