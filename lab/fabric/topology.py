# SPDX-License-Identifier: Apache-2.0
"""The fabric: a router, LB nodes, members and a client.

    client ── router ══ lb1, lb2
                 └───── member1 … member4
"""

from lab import parallel
from lab import progress
from lab.fabric import client
from lab.fabric import members
from lab.fabric import nodes
from lab.fabric import router

NODES = ('lb1', 'lb2')
MEMBERS = ('member1', 'member2', 'member3', 'member4')


def up(lab, options=None):
    """Start the fabric with all processes of the LB nodes.

    `options` go into each node's octavia-xdp.conf.
    """
    make(lab)
    start(lab, options)


def start(lab, options=None):
    """Start the processes of the LB nodes; see `up`."""
    with progress.step('starting the LB nodes'):
        for node in NODES:
            nodes.register(lab, node)
            nodes.configure(lab, node, options)
            nodes.configure_exabgp(lab, node)
            nodes.start(lab, node)


def make(lab):
    """Create all hosts, without processes on the LB nodes."""
    with progress.step('making the fabric'):
        router.create(lab)
        client.create(lab)
        parallel.together(
            *(lambda node=node: nodes.create(lab, node) for node in NODES),
            *(lambda member=member: members.create(lab, member)
              for member in MEMBERS))
        router.start(lab, {node: nodes.address(node) for node in NODES})
