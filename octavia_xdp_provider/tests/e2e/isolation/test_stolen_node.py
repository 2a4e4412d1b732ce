# SPDX-License-Identifier: Apache-2.0
"""Somebody with an LB node's credentials calls all that there is."""

from lab.fabric import nodes
from lab.fabric import topology
from octavia_xdp_provider.contracts import host_rpc
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.tests.e2e.support import stolen


class TestStolenNode(stolen.StolenTestCase):

    STOLEN = 'lb2'
    OTHERS = 'lb1', topology.MEMBERS[0]
    METHODS = {
        (rpc.NODES_NAMESPACE, rpc.NODES_VERSION, rpc.CONTROLLER_TOPIC): {
            'nat_peers': (), 'fetch': ('since', 'after'),
            'compare': ('after',), 'documents': ('ids',),
            'history': ('after', 'ids'),
            'report': ('epoch', 'seq', 'report')},
        (rpc.HEARTBEAT_NAMESPACE, rpc.VERSION, rpc.HEARTBEAT_TOPIC): {
            'heartbeat': ()},
    }
    CLOSED = ((rpc.DRIVER_NAMESPACE, rpc.DRIVER_VERSION),
              (rpc.WAKEUP_NAMESPACE, rpc.VERSION),
              (host_rpc.HOSTS_NAMESPACE, host_rpc.VERSION), (None, '1.0'))

    def configuration(self):
        return nodes.configuration(self.lab, self.STOLEN)
