# SPDX-License-Identifier: Apache-2.0
"""Load balancers with layer-7 listeners, advanced step by step."""

from unittest import mock

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import views
from octavia_xdp_provider.controller import proxies
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


class TestProxies(ProxiesTestCase):

    def test_load_balancer_is_active_once_both_tiers_serve_it(self):
        self.create()
        self.report_all('a', 'b')
        self.assertIsNone(self.proxies())
        self.notified.clear()
        self.report_all('p', 'q')
        self.assertEqual(({'p': 1, 'q': 1}, ['listener']), self.proxies())
        self.assertEqual(
            {host: [address] for host, address in ADDRESSES.items()},
            {host: node['addresses'] for host, node
             in self.document()['proxies']['nodes'].items()})
        self.assertEqual({'a', 'b', 'p', 'q'}, self.notified)
        self.report_all('a', 'b', 'p')
        self.assertIsNone(self.provisioning())
        self.report_all('q')
        for key in advancing.ALL:
            self.assertEqual(('ACTIVE', 'ONLINE'), (
                self.provisioning(key), self.octavia.operating(key)), key)

    def test_load_balancer_of_layer_4_has_no_proxies(self):
        with mock.patch.object(proxies, 'decide') as decide:
            self.create(base.document())
            self.report_all()
        decide.assert_not_called()
        self.assertIsNone(self.proxies())
        self.assertEqual('ACTIVE', self.provisioning())

    def test_change_of_a_served_listener_takes_one_generation(self):
        self.served()
        doc = document()
        doc['pools']['pool']['members']['m1']['weight'] = 7
        self.change(doc)
        generation = self.generation()
        for host in ('a', 'b', 'p', 'q'):
            self.report_all(host)
        self.assertEqual(generation, self.generation())
        self.assertEqual({'ACTIVE'}, set(self.octavia.trees['lb'].values()))

    def test_further_listener_is_served_once_proxy_nodes_have_it(self):
        self.served()
        self.change(document(web='HTTP'))
        generation = self.generation()
        self.report_all('a', 'b', 'p')
        self.assertEqual(['listener'], self.proxies()[1])
        self.report_all('q')
        self.assertEqual(['listener', 'web'], self.proxies()[1])
        self.assertIsNone(self.provisioning('web'))
        self.report_all()
        self.assertEqual('ACTIVE', self.provisioning('web'))
        self.assertLess(self.generation(), generation + 3)

    def test_deleted_listener_takes_one_generation(self):
        self.create(document(web='HTTP'))
        self.report_all()
        self.report_all()
        self.change(document())
        generation = self.generation()
        self.report_all()
        self.assertEqual(generation, self.generation())
        self.assertEqual('DELETED', self.provisioning('web'))

    def test_silence_takes_no_generation(self):
        self.served()
        generation = self.generation()
        for condition in ('silent', 'dead', 'live'):
            self.condition(q=condition)
        self.assertEqual(generation, self.generation())

    def test_slow_proxy_node_is_not_waited_for_to_begin(self):
        self.create()
        self.report_all('a', 'b', 'p')
        self.assertIsNone(self.proxies())
        self.now += proxies.JOIN_S
        self.work()
        self.assertEqual(({'p': 1}, ['listener']), self.proxies())
        self.report_all('p', 'q')
        self.assertEqual(({'p': 1, 'q': 1}, ['listener']), self.proxies())

    def test_change_goes_on_without_a_stuck_proxy_node(self):
        self.served()
        self.change(document(web='HTTP'))
        self.report_all('a', 'b', 'p')
        self.now += self.conf.controller.status_timeout / 2
        self.work()
        self.assertEqual(({'p': 1, 'q': 0}, ['listener', 'web']),
                         self.proxies())
        self.report_all('a', 'b', 'p')
        self.assertEqual('ACTIVE', self.provisioning('web'))

    def test_configuration_that_no_proxy_node_can_apply_is_active_late(self):
        self.served()
        self.change(document(web='HTTP'))
        self.report_all('a', 'b')
        generation = self.generation()
        self.report_all('p', 'q', error='bad')
        self.assertEqual(generation, self.generation())
        self.assertIsNone(self.provisioning('web'))
        self.now += self.conf.controller.status_timeout + 1
        with self.assertLogs('octavia_xdp_provider', 'ERROR') as logged:
            self.work()
        self.assertIn('no live proxy node has applied', logged.output[0])
        self.assertEqual(('ACTIVE', 'ERROR'), (
            self.provisioning('web'), self.octavia.operating('web')))

    def test_load_balancer_without_proxy_nodes_is_active_late(self):
        self.create()
        self.condition(p='dead', q='dead')
        self.report_all('a', 'b')
        self.assertIsNone(self.provisioning())
        self.now += self.conf.controller.status_timeout + 1
        self.work()
        self.assertEqual(('ACTIVE', 'ERROR'), (
            self.provisioning(), self.octavia.operating('listener')))

    def test_proxies_end_with_the_last_listener_that_needs_them(self):
        self.served()
        self.change(base.document())
        self.assertIsNone(self.proxies())
        self.report_all()
        self.assertEqual('ACTIVE', self.provisioning())

    def test_another_change_meanwhile_is_not_overwritten(self):
        self.create()
        self.report('a', 'b', 'p', 'q', members=UP)
        store = self.store.load_balancers
        change = store.change

        def later(key, function, expected=None, pending=()):
            change(key, lambda doc: {**doc, 'name': 'renamed'})
            return change(key, function, expected, pending)
        with mock.patch.object(store, 'change', later):
            item, = self.store.work.claim('test', 1, 60)
            self.assertEqual(0.0, self.advance.step(item, lambda: True))
        self.assertEqual('renamed', self.document()['name'])
        self.assertIsNone(self.proxies())


class TestDeletion(ProxiesTestCase):

    def test_deleted_once_no_node_of_either_tier_has_it(self):
        self.served()
        self.octavia.commit(self.document(), (), {('loadbalancer', 'lb')})
        self.store.load_balancers.delete('lb')
        self.work()
        self.assertEqual({'a', 'b', 'p', 'q'}, self.notified)
        self.report_all('a', 'b', 'p')
        self.assertEqual('ACTIVE', self.provisioning())
        self.report_all('q')
        self.assertEqual('DELETED', self.provisioning())
