# SPDX-License-Identifier: Apache-2.0
"""Load balancers with layer-7 listeners, advanced step by step."""

from unittest import mock

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import views
from octavia_xdp_provider.controller import proxies
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import advancing
from octavia_xdp_provider.tests.unit.controller import proxying


def document_with_limit():
    """Return a document of TCP that needs proxy nodes."""
    doc = base.document()
    doc['listeners']['listener']['connection_limit'] = 9
    return doc


class TestProxies(proxying.ProxiesTestCase):

    def test_load_balancer_is_active_once_both_tiers_serve_it(self):
        self.create()
        self.report_all('a', 'b')
        self.assertIsNone(self.proxies())
        self.notified.clear()
        self.report_all('p', 'q')
        self.assertEqual(({'p': 1, 'q': 1}, ['listener']), self.proxies())
        self.assertEqual(
            {host: [address] for host, address in proxying.ADDRESSES.items()},
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
        doc = proxying.document()
        doc['pools']['pool']['members']['m1']['weight'] = 7
        self.change(doc)
        generation = self.generation()
        for host in ('a', 'b', 'p', 'q'):
            self.report_all(host)
        self.assertEqual(generation, self.generation())
        self.assertEqual({'ACTIVE'}, set(self.octavia.trees['lb'].values()))

    def test_further_listener_is_served_once_proxy_nodes_have_it(self):
        self.served()
        self.change(proxying.document(web='HTTP'))
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
        self.create(proxying.document(web='HTTP'))
        self.report_all()
        self.report_all()
        self.change(proxying.document())
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
        self.change(proxying.document(web='HTTP'))
        self.report_all('a', 'b', 'p')
        self.now += self.conf.controller.status_timeout / 2
        self.work()
        self.assertEqual(({'p': 1, 'q': 0}, ['listener', 'web']),
                         self.proxies())
        self.report_all('a', 'b', 'p')
        self.assertEqual('ACTIVE', self.provisioning('web'))

    def test_configuration_that_no_proxy_node_can_apply_is_active_late(self):
        self.served()
        self.change(proxying.document(web='HTTP'))
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
        self.report_all('a', 'p', 'q')
        self.assertEqual(({'p': 1, 'q': 1}, ['listener']), self.proxies())
        self.report_all('b')
        self.assertIsNone(self.proxies())
        self.report_all()
        self.assertEqual('ACTIVE', self.provisioning())

    def test_lb_nodes_serve_a_listener_until_proxy_nodes_do(self):
        self.create(base.document())
        self.report_all()
        self.change(document_with_limit())
        served, = self.served_by_lb_nodes()
        self.assertEqual('pool', served['default_pool_id'])
        self.report_all()
        served, = self.served_by_lb_nodes()
        self.assertEqual(views.proxy_pool_id('listener'),
                         served['default_pool_id'])
        self.assertNotIn('moving', self.document()['proxies'])
        # The members that it had keep their connections.
        moved = self.document()['moved']['listener']
        self.assertEqual({'m1', 'm2'}, moved['pool']['members'].keys())

    def served_by_lb_nodes(self):
        return views.for_lb_node(self.document())['listeners'].values()

    def test_another_change_meanwhile_is_not_overwritten(self):
        self.create()
        self.report('a', 'b', 'p', 'q', members=proxying.UP)
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


class TestPolicies(proxying.ProxiesTestCase):

    RULE = ('l7rule', 'rule')
    POLICY = ('l7policy', 'policy')

    def with_policy(self, rules=('rule',)):
        doc = proxying.document()
        doc['listeners']['listener']['l7policies'] = {
            'policy': spec.with_defaults('l7policy', {
                'action': 'REJECT', 'position': 1, 'rules': {
                    key: spec.with_defaults('l7rule', {
                        'type': 'PATH', 'compare_type': 'EQUAL_TO',
                        'value': '/'}) for key in rules}})}
        return doc

    def settle(self):
        for _ in range(2):
            self.report_all()

    def test_policies_and_rules_get_statuses(self):
        self.create(self.with_policy())
        self.settle()
        for _, key in (self.POLICY, self.RULE):
            self.assertEqual(('ACTIVE', 'ONLINE'), (
                self.provisioning(key), self.octavia.operating(key)))
        self.change(self.with_policy(rules=()))
        self.settle()
        self.assertEqual(('ACTIVE', 'DELETED'), (
            self.provisioning('policy'), self.provisioning('rule')))

    def test_deleted_listener_takes_its_policies_along(self):
        self.create(self.with_policy())
        self.settle()
        doc = proxying.document()
        doc['listeners'] = {}
        self.change(doc)
        self.settle()
        for key in ('listener', 'policy', 'rule'):
            self.assertEqual('DELETED', self.provisioning(key))

    def test_policy_that_octavia_lacks_harms_no_other_object(self):
        self.create(self.with_policy())
        del self.octavia.trees['lb'][self.POLICY]
        self.settle()
        self.assertEqual('ACTIVE', self.provisioning('rule'))
        self.assertEqual('ACTIVE', self.provisioning())


class TestDeletion(proxying.ProxiesTestCase):

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
