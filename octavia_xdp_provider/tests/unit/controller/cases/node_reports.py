# SPDX-License-Identifier: Apache-2.0
"""Reports of a node are applied once and in order."""

from octavia_xdp_provider.tests.unit.controller import reporting


class NodeReports(reporting.NodeApiTestCase):

    def test_report_of_a_node_is_stored(self):
        answer = self.take(1, 1, held={'lb': reporting.held(3, 'full')})
        self.assertEqual({'taken': True, 'epoch': 1, 'seq': 1}, answer)
        placement = self.placement()
        self.assertEqual((3, 'full', reporting.UP, True), (
            placement.synced_generation, placement.error, placement.members,
            placement.announced))
        self.assertEqual([{'lb'}], self.touched)

    def test_report_is_taken_once_and_in_order(self):
        self.take(1, 1, held={'lb': reporting.held(3)})
        self.take(1, 2, held={'lb': reporting.held(4)})
        for seq, taken in ((2, True), (1, False), (4, False)):
            self.assertEqual(
                {'taken': taken, 'epoch': 1, 'seq': 2},
                self.take(1, seq, held={'lb': reporting.held(99)}))
        self.assertEqual(4, self.placement().synced_generation)

    def test_epoch_begins_with_its_first_report(self):
        self.take(7, 1)
        for epoch, seq in ((6, 1), (8, 2)):
            self.assertEqual({'taken': False, 'epoch': 7, 'seq': 1},
                             self.take(epoch, seq))
        self.assertTrue(self.take(8, 1)['taken'])

    def test_new_epoch_drops_unreported_load_balancers(self):
        self.take(1, 1, held={'lb': reporting.held(3)})
        self.take(2, 1, complete=False)
        self.assertEqual(3, self.placement().synced_generation)
        self.take(2, 2)
        placement = self.placement()
        self.assertEqual((0, None, None), (
            placement.synced_generation, placement.members,
            placement.announced))

    def test_removal_counts_once_the_node_has_seen_it(self):
        self.take(1, 1, held={'lb': reporting.held(3)})
        self.store.placements.place('lb', remove=['a'])
        removed = self.placement().removed_generation
        self.take(1, 2, as_of=removed - 1, gone=['lb'])
        self.take(1, 3, as_of=removed, complete=False)
        self.assertEqual('a', self.placement().host)
        self.take(1, 4, as_of=removed)
        self.assertEqual([], self.store.placements.select(['lb']))

    def test_unchanged_report_wakes_no_worker(self):
        self.take(1, 1, held={'lb': reporting.held(3)})
        self.touched.clear()
        self.take(1, 2, held={'lb': reporting.held(3)})
        self.assertEqual([], self.touched)

    def test_history_of_a_node_is_sent_to_others(self):
        self.store.nodes.register('c')
        self.store.placements.place('lb', add=['c'])
        change = {'members': {'m2': 0}, 'slots': 1021, 'at': 40}
        self.take(1, 1, clock=100, held={
            'lb': {**reporting.held(3), 'history': {'pool': [change]}}})
        told, more = self.store.histories.of_others('c', None, 'dead')
        (age, *change), = told['lb'].changes[0]['pool']
        self.assertLessEqual(60, age)
        self.assertEqual(([{'m2': 0}, 1021, []], {'pool': {'m1', 'm2'}}, None),
                         (change, told['lb'].members, more))
        self.assertEqual(
            ({}, None), self.store.histories.of_others('c', 'lb', 'dead'))
        self.take(1, 2, held={'lb': reporting.held(3)})
        self.assertEqual(
            ({}, None), self.store.histories.of_others('c', None, 'dead'))

    def node(self, host='a'):
        return {node.host: node for node in self.store.nodes.all()}[host]

    def test_node_is_alive_since_its_first_report(self):
        self.assertEqual(0, self.node().last_seen)
        self.take(1, 1, state={'version': '1'})
        self.take(1, 2)
        self.assertLess(0, self.node().last_seen)
        self.assertEqual({'version': '1'}, self.node().state)
        self.assertEqual([1], self.appeared)
