# SPDX-License-Identifier: Apache-2.0
"""A load balancer on LB nodes and proxy nodes that the scheduler chooses."""

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import advancing


class ProxiedNodesTestCase(advancing.AdvanceTestCase):
    """Each load balancer wants two nodes of each role."""

    LB_NODES, PROXIES = ('a', 'b'), ('p', 'q', 'r')

    def setUp(self):
        super().setUp()
        self.register()

    def register(self):
        for host in self.LB_NODES:
            self.store.nodes.register(host)
        for number, host in enumerate(self.PROXIES):
            self.store.nodes.register(host, role=rows.PROXY,
                                      addresses=[f'192.0.2.{number}'])
        for host in (*self.LB_NODES, *self.PROXIES):
            self.seen(host, {})
        self.set_conditions(**dict.fromkeys(
            (*self.LB_NODES, *self.PROXIES), 'live'))

    def create(self, protocol='HTTP'):
        tree = base.tree()
        tree['listeners']['listener']['protocol'] = protocol
        document = spec.document('lb', tree)
        self.octavia.commit(document)
        self.store.load_balancers.create(document)
        self.work()

    def set_protocol(self, protocol):
        self.store.load_balancers.change('lb', lambda document: {
            **document, 'listeners': {'listener': {
                **document['listeners']['listener'], 'protocol': protocol}}})

    def fail_over(self):
        with self.store.database.write() as session:
            session.query(models.Placement).update({'replace': True})
        self.store.work.mark(['lb'])

    def weights(self):
        """Return host → weight of proxy nodes that LB nodes are told."""
        held = self.document().get('proxies')
        return held and {host: node['weight']
                         for host, node in held['nodes'].items()}
