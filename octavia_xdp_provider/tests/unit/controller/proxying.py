# SPDX-License-Identifier: Apache-2.0
"""Base of tests that advance a load balancer with layer-7 listeners."""

from unittest import mock

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import views
from octavia_xdp_provider.controller.scheduler import service
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import advancing

ADDRESSES = {'p': '192.0.2.1', 'q': '192.0.2.2'}
UP = {'lb': {'m1': 'up', 'm2': 'up', **{
    views.proxy_member_id(key, host): 'up'
    for key in ('listener', 'web') for host in ADDRESSES}}}


def document(**listeners):
    """Return a document with one listener of HTTP.

    :param listeners: further ones, by id: protocol.
    """
    tree = base.tree()
    tree['listeners']['listener']['protocol'] = 'HTTP'
    tree['pools']['pool']['protocol'] = 'HTTP'
    for number, (key, protocol) in enumerate(listeners.items()):
        tree['listeners'][key] = {'protocol': protocol,
                                  'protocol_port': 8000 + number}
    return spec.document('lb', tree)


class ProxiesTestCase(advancing.AdvanceTestCase):
    """LB nodes a and b, and proxy nodes p and q, have the load balancer."""

    def setUp(self):
        super().setUp()
        self.enterContext(mock.patch.object(
            service.Scheduler, 'place', return_value=service.Placed()))
        for host, address in ADDRESSES.items():
            self.store.nodes.register(host, role=rows.PROXY,
                                      addresses=[address])
            self.seen(host, {})
        self.set_conditions(p='live', q='live')

    def create(self, doc=None):
        doc = doc or document()
        self.octavia.commit(doc)
        self.store.load_balancers.create(doc)
        self.store.placements.place('lb', add=['a', 'b', 'p', 'q'])
        self.work()

    def served(self):
        """Create a load balancer that is ACTIVE."""
        self.create()
        self.report_all()
        self.report_all()
        self.assertEqual('ACTIVE', self.provisioning())

    def report_all(self, *hosts, **more):
        self.report(*(hosts or ('a', 'b', 'p', 'q')), **{
            'members': UP, **more})
        self.work()

    def change(self, doc):
        """Make a change that Octavia has committed."""
        deleted = spec.objects(self.document()) - spec.objects(doc)
        self.octavia.commit(self.octavia.documents['lb'] if deleted else doc,
                            deleted=deleted)
        self.store.load_balancers.change(
            'lb', lambda before: spec.as_committed(before, doc),
            pending=spec.objects(doc))
        self.work()

    def generation(self):
        return self.store.load_balancers.get('lb').generation

    def proxies(self):
        """Return weights by host, and listeners."""
        held = self.document().get('proxies')
        return held and ({host: node['weight'] for host, node
                          in held['nodes'].items()}, held['listeners'])

    def condition(self, **conditions):
        self.set_conditions(**conditions)
        self.work()
