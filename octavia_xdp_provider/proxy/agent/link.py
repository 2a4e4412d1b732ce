# SPDX-License-Identifier: Apache-2.0
"""The link of a proxy node to the controller."""

from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.process.agents import link


class Link(link.Link):
    """Fetches and reports.

    A node with problems reports what it has all the same: HAProxy processes
    go on without the launcher, and what has not been reached is not reported.
    """

    sender = 'node'

    def unsupported(self) -> str:
        return ('The controller does not support the version of the '
                'interface for nodes that this node uses '
                f'({rpc.NODES_VERSIONS[-1]}, unless configured). '
                f'{rpc.pin("nodes", rpc.NODES_VERSIONS, "node")}.')
