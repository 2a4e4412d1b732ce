# SPDX-License-Identifier: Apache-2.0
"""Drain nodes that have NAT flows."""

import time
from unittest import mock

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller import status
from octavia_xdp_provider.controller.scheduler import decision
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.manage import operating

NODES = ('lb1', 'lb2')
POOLS = {'lb1': '198.51.100.0/31', 'lb2': '198.51.100.2/31'}


class TestDrainNat(operating.OperatorTestCase):

    def setUp(self):
        super().setUp()
        self.enterContext(mock.patch.object(
            decision, 'FLOWS_SETTLE_S', 0.1))
        self.enterContext(mock.patch.object(decision, 'FLOWS_CHECK_S', 0.01))
        self.flows = 0  # on lb1
        self.report(*NODES)
        self.store.load_balancers.create(dict(
            unit.document(flavor={'forwarding': 'nat'}), id='a', name='web'))
        self.store.placements.place('a', ['lb1'])
        self.run_controller(*NODES)
        self.flows = 5
        self.run_controller(*NODES)

    def report(self, *hosts):
        """Report that these nodes have applied and announce as wanted."""
        self.epoch += 1
        for host in hosts:
            self.store.nodes.register(host, [POOLS[host]])
            answer = self.store.deltas.changes(host, 0)
            flows = self.flows if host == 'lb1' else 0
            taken = self.store.reports.take(host, self.epoch, 1, {
                'as_of': answer['as_of'], 'complete': True, 'gone': [],
                'state': {'document_version': spec.VERSION,
                          'nat': {'pools': [POOLS[host]],
                                  'flows': flows}},
                'counters': {entry['id']: {'listener': {
                    'bytes': 0, 'flows': 5, 'active': flows}}
                    for entry in answer['changed']},
                'held': {entry['id']: {
                    'generation': entry['generation'], 'error': None,
                    'members': {}, 'announced': 'withdrawn' not in entry}
                    for entry in answer['changed']}})
            self.assertTrue(taken.answer['taken'])

    def until(self, condition):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            self.run_controller(*NODES)

    def withdrawn(self):
        return [row.host for row in self.store.placements.select(['a'])
                if row.withdrawn_since is not None]

    def test_load_balancer_leaves_when_its_flows_have_ended(self):
        self.done('node', 'drain', 'lb1')
        self.until(self.withdrawn)
        entry, = self.store.deltas.changes('lb1', 0)['changed']
        self.assertEqual((True, True), (entry['draining'],
                                        entry['withdrawn']))
        self.assertIn('5 NAT flows', self.refused(
            'node', 'drain', 'lb1', '--wait', '--timeout', '0'))
        time.sleep(2 * decision.FLOWS_SETTLE_S)
        for _ in range(3):
            self.run_controller(*NODES)
        self.assertEqual(['lb1', 'lb2'], self.hosts('a'))
        self.flows = 0
        self.until(lambda: self.hosts('a') == ['lb2'])

    def test_vip_withdrawn_on_purpose_is_no_fault(self):
        self.done('node', 'drain', 'lb1')
        self.until(self.withdrawn)
        self.run_controller(*NODES)
        row, = (row for row in self.store.placements.select(['a'])
                if row.host == 'lb1')
        self.assertIs(False, row.announced)
        self.assertIsNone(status.view(row, {}, True, 1).announced)
        # It does not count as a move under way either.
        self.assertEqual(0, self.store.balance.moves_under_way(1))

    def test_enable_undoes_drain(self):
        self.done('node', 'drain', 'lb1')
        self.until(self.withdrawn)
        before = self.store.deltas.changes('lb1', 0)['changed'][0][
            'generation']
        self.store.placements.place('a', (), ('lb2',))
        self.done('node', 'enable', 'lb1')
        self.until(lambda: not self.withdrawn())
        entry, = self.store.deltas.changes('lb1', 0)['changed']
        self.assertGreater(entry['generation'], before)
        self.assertTrue({'draining', 'withdrawn'}.isdisjoint(entry))
