# SPDX-License-Identifier: Apache-2.0
"""Somebody with a hypervisor's credentials calls all that there is.

The hypervisor is registered, and serves nobody: what controllers send to it
and take from it is tried with the same calls.
"""

import pathlib
import tempfile

from lab.control import ini
from lab.control import octavia
from lab.control import rabbitmq
from octavia_xdp_provider.contracts import host_rpc
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.tests.e2e.support import stolen

SERVED_S = 60


class TestStolenHypervisor(stolen.StolenTestCase):

    STOLEN = 'hv1'
    OTHERS = 'hv2', 'lb1'
    METHODS = {
        (host_rpc.HOSTS_NAMESPACE, host_rpc.VERSION,
         host_rpc.CONTROLLER_TOPIC): {
            'fetch': ('since', 'after'), 'compare': ('after',),
            'documents': ('ids',), 'report': ('epoch', 'seq', 'report'),
            'flows': ('port', 'flows')},
    }
    CLOSED = ((rpc.DRIVER_NAMESPACE, rpc.DRIVER_VERSION),
              (rpc.WAKEUP_NAMESPACE, rpc.VERSION),
              (rpc.NODES_NAMESPACE, rpc.NODES_VERSION),
              (host_rpc.WAKEUP_NAMESPACE, host_rpc.VERSION), (None, '1.0'))

    def configuration(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        path = pathlib.Path(directory.name) / 'host.conf'
        ini.write(path, {
            'DEFAULT': {
                'host': self.STOLEN,
                'transport_url': rabbitmq.hypervisor_url(
                    self.lab, self.STOLEN)},
            'oslo_messaging_rabbit': rabbitmq.tls_options(self.lab)})
        return path

    def share(self):
        # Once: controllers that end to serve it would take a call along.
        octavia.register_hypervisor(self.lab, self.STOLEN)
        self.addCleanup(self.manage, 'host', 'delete', self.STOLEN)
        return super().share()

    def setUp(self):
        super().setUp()
        self.wait('controllers that serve it', self.is_served, SERVED_S)

    def is_served(self):
        where, = self.METHODS
        return self.call(where, 'compare', {
            'host': self.STOLEN, 'after': None}, 2) == 'taken'
