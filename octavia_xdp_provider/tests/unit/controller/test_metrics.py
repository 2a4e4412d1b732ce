# SPDX-License-Identifier: Apache-2.0
"""The controller's metrics, with a real database."""

import prometheus_client

from octavia_xdp_provider.controller import metrics
from octavia_xdp_provider.controller.store import ways
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.controller import base


class TestCollector(base.StoreTestCase):

    def setUp(self):
        super().setUp()
        self.registry = prometheus_client.CollectorRegistry()
        self.registry.register(metrics.Collector(
            self.store, lambda: True, self.conf.placement))

    def value(self, name, **labels):
        return self.registry.get_sample_value(f'octavia_xdp_controller_{name}',
                                              labels)

    def lag(self, host):
        return self.value('node_lag_generations', host=host, role='lb')

    def create(self, key, number, *hosts):
        self.store.load_balancers.create(dict(
            unit.document(), id=key, pools={}, listeners={},
            vip_address=f'203.0.113.{number}'))
        self.store.placements.place(key, hosts)

    def report(self, host, error=None):
        self.report_wanted(host, error)

    def test_placements_and_lag_of_nodes_are_shown(self):
        for host in ('lb1', 'lb2'):
            self.seen(host, {'services': 3, 'services_max': 16,
                             'bgp_established': [1, 2]})
        self.create('a', 1, 'lb1', 'lb2')
        self.create('b', 2, 'lb1')
        self.report('lb1')
        self.assertEqual((2, 0, 0, 1), (
            self.value('placements', host='lb1', role='lb', state='ok'),
            self.value('placements', host='lb1', role='lb', state='behind'),
            self.lag('lb1'),
            self.value('placements', host='lb2', role='lb', state='behind')))
        lag = self.lag('lb2')
        self.assertGreater(lag, 0)
        self.create('c', 3)
        self.assertGreater(self.lag('lb2'), lag)
        self.report('lb2', error='full')
        self.store.placements.place('b', remove=['lb1'])
        self.store.placements.place('a', drain=['lb1'])
        self.assertEqual((1, 1, 1), (
            self.value('placements', host='lb2', role='lb', state='failing'),
            self.value('placements', host='lb1', role='lb', state='leaving'),
            self.value('placements', host='lb1', role='lb', state='draining')))
        self.assertEqual((3, 16, 1, 1), (
            self.value('node_services', host='lb1'),
            self.value('node_services_max', host='lb1'),
            self.value('node_bgp_sessions', host='lb1', state='up'),
            self.value('node_bgp_sessions', host='lb1', state='down')))

    def test_proxy_nodes_are_shown_with_their_role(self):
        self.store.nodes.register('p', role='proxy', addresses=['192.0.2.1'])
        self.seen('p', {})
        self.create('a', 1, 'p')
        self.report('p')
        of_node = {'host': 'p', 'role': 'proxy'}
        self.assertEqual((1, 1, 0), (
            self.value('node_condition', condition='unknown', **of_node),
            self.value('placements', state='ok', **of_node),
            self.value('node_lag_generations', **of_node)))
        self.assertIsNotNone(self.value('node_silence_seconds', **of_node))

    def test_load_balancers_in_one_zone_only_are_shown(self):
        for host in ('a1', 'a2', 'b1'):
            self.store.nodes.register(host, zone=host[0])
        self.create('a', 1, 'a1', 'a2')
        self.create('b', 2, 'a1', 'b1')
        self.assertEqual((1, 0), tuple(
            self.value('load_balancers_in_one_zone', zone=zone)
            for zone in 'ab'))

    def test_malformed_state_of_a_node_hides_no_other(self):
        self.seen('lb1', {'bgp_established': [1, 2, 3]})
        self.seen('lb2', {'bgp_established': [1, 2]})
        self.assertEqual(1, self.value('node_bgp_sessions', host='lb2',
                                       state='up'))

    def test_new_placement_does_not_count_as_lag(self):
        self.seen('lb1', {})
        self.create('a', 1)
        for number in range(5):
            self.create(f'b{number}', 10 + number)
        self.store.placements.place('a', ['lb1'])
        self.assertEqual(1, self.lag('lb1'))

    def test_ports_and_silence_of_hypervisors_are_shown(self):
        for host in ('hv1', 'hv2', 'hv3'):
            self.store.hypervisors.register(host)
        self.store.hypervisors.set_in_service('hv3', False)
        ids = [f'{number:08}-0000-4000-8000-000000000001'
               for number in range(4)]
        token = self.store.leases.acquire('duty', 'test', 3600)
        self.store.ways.store(ways.Changes(documents={
            ('hv1', key): ('port', {'id': key}) for key in ids} | {
            ('hv1', ids[3]): ('address_set', {'id': ids[3]})}),
            'duty', token)
        as_of = self.store.hypervisors.changes('hv1', 0)['as_of']
        self.store.hypervisors.heartbeat('hv1')
        self.store.host_reports.take('hv1', 1, 1, {
            'as_of': as_of, 'complete': True, 'gone': [], 'counters': {},
            'state': {}, 'held': {
                ids[0]: {'generation': as_of, 'ifindex': 3, 'error': None},
                ids[1]: {'generation': as_of, 'ifindex': None,
                         'error': 'no'}}})
        self.assertEqual([1, 1, 1], [
            self.value('hypervisor_ports', host='hv1', state=state)
            for state in ('ready', 'failing', 'loading')])
        self.assertLess(self.value('hypervisor_silence_seconds', host='hv1'),
                        60)
        # One has never reported, and one is not in service.
        self.assertIsNone(self.value('hypervisor_silence_seconds',
                                     host='hv2'))
        self.assertEqual(0, self.value('hypervisor_ports', host='hv2',
                                       state='ready'))
        self.assertIsNone(self.value('hypervisor_ports', host='hv3',
                                     state='ready'))

    def test_queue_and_load_balancers_are_shown(self):
        self.create('a', 1)
        self.create('b', 2)
        self.store.load_balancers.delete('b')
        self.store.work.mark(['a'])
        self.store.work.mark(['later'], delay_s=60)
        self.assertEqual((3, 2), (self.value('work_items'),
                                  self.value('work_due')))
        self.assertEqual((1, 1, 0), tuple(
            self.value('load_balancers', state=state)
            for state in ('active', 'deleting', 'pending')))

    def test_missing_database_is_shown(self):
        def broken():
            raise OSError('gone')
        self.store.figures.count = broken
        self.assertEqual((0, 1), (self.value('database_up'),
                                  self.value('leader')))
        self.assertIsNone(self.value('work_due'))


class TestMetrics(unit.TestCase):

    def test_changes_and_failures_are_counted(self):
        registry = prometheus_client.CollectorRegistry()
        counted = metrics.Metrics(registry)
        counted.answered('accepted')
        counted.answered('refused')
        counted.accepted('a')
        counted.done('a', True)
        counted.done('a', True)
        # Another controller has sent the statuses.
        counted.accepted('b')
        counted.done('b', False)
        counted.done('b', True)
        for name, labels, expected in (
                ('changes_total', {'outcome': 'accepted'}, 1),
                ('rpc_failures_total', {'kind': 'wakeup'}, 0),
                ('change_seconds_count', {}, 1)):
            self.assertEqual(expected, registry.get_sample_value(
                f'octavia_xdp_controller_{name}', labels))
