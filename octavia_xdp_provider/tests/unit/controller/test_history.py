# SPDX-License-Identifier: Apache-2.0
"""Which members took new flows before: what nodes report, and what one that
asks is told."""

import json

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import history
from octavia_xdp_provider.contracts import shape
from octavia_xdp_provider.controller import majority
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import reporting

ANSWER = shape.Shape(history.Answer)
CLOCK = 50000  # of nodes

# 25 s before a report was made.
ADDED = {'members': {'m2': 0}, 'slots': 1021, 'at': CLOCK - 25}


class TestHistory(reporting.NodeApiTestCase):

    def setUp(self):
        super().setUp()
        self.hold_time()
        for host in ('c', 'd', 'boots'):
            self.store.nodes.register(host)
            self.store.placements.place('lb', add=[host])
        self.seq = {}

    def says(self, host, *changes, key='lb', pool_id='pool', **more):
        """A node reports what it remembers."""
        state = reporting.held(9, **more)
        if changes:
            state['history'] = {pool_id: list(changes)}
        self.seq[host] = self.seq.get(host, 0) + 1
        answer = self.take(1, self.seq[host], host, held={key: state},
                           clock=CLOCK)
        self.assertTrue(answer['taken'])

    def told(self, host='boots', after=None):
        answer = self.api.history({}, host, after)
        ANSWER.check(answer)
        return answer['load_balancers']

    def aged(self, age):
        return {'lb': {'pool': [
            {'members': {'m2': 0}, 'slots': 1021, 'age': age}]}}

    def test_node_gets_the_changes_of_others_with_ages(self):
        for host in ('a', 'c', 'd'):
            self.says(host, ADDED)
        self.assertEqual(self.aged(25), self.told())
        self.now += 60
        self.assertEqual(self.aged(85), self.told())
        # The database's clock is set back.
        self.now -= 3600
        self.assertEqual(self.aged(0), self.told())

    def test_single_node_does_not_decide(self):
        lie = {**ADDED, 'members': {'m1': 0, 'm2': 0}}
        self.says('c', lie)
        self.says('a')
        self.says('d')
        self.assertEqual({}, self.told())
        self.says('a', ADDED)
        self.says('d', ADDED)
        self.assertEqual(self.aged(25), self.told())

    def test_node_does_not_get_its_own_history(self):
        self.says('boots', ADDED)
        self.assertEqual({}, self.told())

    def test_dead_and_unsynced_nodes_do_not_count(self):
        self.says('a', ADDED)
        self.says('c')
        self.assertEqual({}, self.told())  # d has reported nothing
        with self.store.database.write() as session:
            session.get(models.Node, 'c').condition = 'dead'
        self.assertEqual(self.aged(25), self.told())

    def test_only_nodes_with_a_placement_get_the_history(self):
        self.says('a', ADDED)
        self.assertEqual({}, self.told('b'))
        self.store.placements.place('lb', remove=['boots'])
        self.assertEqual({}, self.told())

    def test_only_load_balancers_that_are_asked_for_are_told(self):
        self.says('a', ADDED)
        for ids, expected in (
                (['lb', 'other'], self.aged(25)), (['other'], {}), ([], {})):
            answer = self.api.history({}, 'boots', None, ids)
            self.assertEqual(expected, answer['load_balancers'])
        self.assertRaises(
            errors.Refused, self.api.history, {}, 'boots', None,
            [f'n{number}' for number in range(history.PAGE + 1)])

    def test_foreign_members_are_left_out(self):
        self.says('a', {**ADDED, 'members': {'m2': 0, 'foreign': 7}})
        self.assertEqual(self.aged(25), self.told())
        self.says('a', ADDED, pool_id='pool2')
        self.assertEqual({}, self.told())

    def test_history_changes_no_generation_and_no_document(self):
        for host in ('a', 'c', 'd'):
            self.says(host)
        before = self.api.fetch({}, 'boots', 0)
        self.touched.clear()
        for host in ('a', 'c', 'd'):
            self.says(host, ADDED)
        self.assertEqual(before, self.api.fetch({}, 'boots', 0))
        self.assertNotIn('1021', json.dumps(before))
        # Nor does anybody look at the load balancer for it.
        self.assertEqual([], self.touched)

    def test_unreported_history_is_forgotten(self):
        self.says('a', ADDED)
        self.says('a')
        self.assertEqual({}, self.told())
        self.says('a', ADDED)
        # It starts over, and has lost the load balancer.
        self.take(2, 1, 'a')
        self.assertEqual({}, self.told())
        with self.store.database.read() as session:
            self.assertEqual({None}, {
                row.history for row in session.query(models.Placement)})

    def test_node_writes_no_history_of_others(self):
        self.says('a', ADDED, key='other')
        self.says('a', ADDED, key='unknown')
        with self.store.database.read() as session:
            self.assertEqual({None}, {
                row.history for row in session.query(models.Placement)})

    def test_pages_together_are_everything(self):
        for number in range(5):
            document = base.document(vip_address=f'203.0.113.{20 + number}')
            document['id'] = key = f'n{number}'
            document['pools'] = {f'pool-{key}': document['pools']['pool']}
            document['listeners'] = {f'listener-{key}': {
                **document['listeners']['listener'],
                'default_pool_id': f'pool-{key}'}}
            self.store.load_balancers.create(document)
            self.store.placements.place(key, add=['a', 'boots'])
            self.says('a', ADDED, key=key, pool_id=f'pool-{key}')
        histories, after = {}, None
        while True:
            told, after = self.store.histories.of_others('boots', after,
                                                         'dead', limit=2)
            self.assertLessEqual(len(told), 2)
            histories.update(told)
            if after is None:
                break
        self.assertEqual({f'n{number}' for number in range(5)}, set(histories))

    def test_malformed_histories_are_refused_by_name(self):
        many = {f'm{number}': 1 for number in range(history.WEIGHTS_MAX)}
        for changes, field in (
                ([{**ADDED, 'at': -1}], 'at'),
                ([{**ADDED, 'slots': 0}], 'slots'),
                ([{**ADDED, 'slots': 1 << 21}], 'slots'),
                ([{**ADDED, 'members': {'m2': 257}}], 'members.m2'),
                ([{**ADDED, 'members': {'m2': True}}], 'members.m2'),
                ([{**ADDED, 'members': {'../m2': 1}}], 'members'),
                ([{**ADDED, 'more': 1}], 'more'),
                ([{**ADDED, 'removed': [{'address': 'x', 'port': 0,
                                         'weight': 1}]}], 'address'),
                ([ADDED] * (history.CHANGES_MAX + 1), 'history.pool'),
                ([{**ADDED, 'members': many}, ADDED], 'history')):
            with self.subTest(field=field):
                error = self.assertRaises(errors.Refused, self.says, 'a',
                                          *changes)
                self.assertIn(field, str(error))
                self.seq['a'] -= 1
        self.assertRaises(errors.Refused, self.take, 1, 1, 'a', held={
            'lb': {**reporting.held(9), 'history': {'pool': [ADDED]}}})
        self.assertRaises(errors.Refused, self.api.history, {}, 'a', 7)
        self.says('a', {**ADDED, 'members': many})

    def test_members_that_were_removed_are_told_by_address(self):
        removed = [{'address': '198.18.1.9', 'port': 0, 'weight': 1}]
        self.says('a', {**ADDED, 'members': {}, 'removed': removed})
        self.assertEqual({'lb': {'pool': [
            {'members': {}, 'removed': removed, 'slots': 1021, 'age': 25}]}},
            self.told())

    def test_change_after_the_nodes_clock_counts_as_just_now(self):
        self.says('a', {**ADDED, 'at': 2 * CLOCK})
        self.assertEqual(self.aged(0), self.told())


AGED = shape.Shape(history.Aged)

# C was added 20 s ago, B 90 s ago.
C = (20, {'c': 0}, 1021)
B = (90, {'b': 0}, 1021)
LIE = (5, {'a': 0, 'b': 0, 'c': 0}, 1021)


class TestMajority(base.TestCase):
    """The other nodes' history, as a node without state receives it."""

    def told(self, *words, members='abc'):
        agreed = majority.agreed([{'pool': list(word)} for word in words],
                                  {'pool': set(members)})
        AGED.check(agreed)
        return [(change['age'], change['members'], change['slots'])
                for change in agreed.get('pool', ())]

    def test_agreed_changes_are_returned(self):
        self.assertEqual([C, B], self.told([C, B], [C, B]))
        # A node whose history is shorter does not contradict the others.
        self.assertEqual([C, B], self.told([C, B], [C, B], [C]))
        self.assertEqual([C], self.told([C, B], [C]))

    def test_single_report_decides_only_for_a_single_node(self):
        self.assertEqual([C], self.told([C]))
        self.assertEqual([], self.told([C], []))
        self.assertEqual([], self.told([LIE], [C]))
        self.assertEqual([C], self.told([LIE, B], [C], [C]))
        self.assertEqual([], self.told([LIE], [C], [B]))

    def test_half_of_the_reports_is_no_majority(self):
        self.assertEqual([], self.told([C], [C], [], []))
        self.assertEqual([C], self.told([C], [C], [C], []))

    def test_older_changes_come_from_agreeing_nodes(self):
        # Two say that B was before something else than C.
        self.assertEqual([C], self.told([C], [C, B], [LIE, B], [C]))

    def test_age_is_the_median_of_the_reports(self):
        ages = [(age, *C[1:]) for age in (19, 20, 9000)]
        self.assertEqual(
            [(20, *C[1:]), B], self.told(*([aged, B] for aged in ages)))
        # The earlier change is none of later: a clock went wrong.
        self.assertEqual([(90, *C[1:]), (90, *C[1:])], self.told(
            [(90, *C[1:]), C]))

    def test_changes_older_than_all_flows_are_dropped(self):
        old = (history.AGE_MAX_S + 1, *B[1:])
        self.assertEqual([C], self.told([C, old]))

    def test_only_members_of_the_pool_are_named(self):
        removed = (20, {'c': 0, 'gone': 1}, 1021)
        self.assertEqual([C], self.told([removed]))
        self.assertEqual([(20, {}, 1021)], self.told([C], members='ab'))
        self.assertEqual({}, majority.agreed(
            [{'foreign': [C]}], {'pool': {'a', 'b', 'c'}}))

    def test_removed_members_are_told_as_most_report_them(self):
        gone = {'address': '198.18.1.9', 'port': 0, 'weight': 1}
        other = {**gone, 'address': '198.18.1.7'}

        def told(*words):
            agreed = majority.agreed([{'pool': [
                (20, {}, 1021, [removed])]} for removed in words],
                {'pool': {'a'}})
            AGED.check(agreed)
            return agreed
        self.assertEqual({'pool': [{
            'members': {}, 'removed': [gone], 'slots': 1021, 'age': 20}]},
            told(gone, gone, other))
        self.assertEqual({}, told(gone, other))

    def test_answer_is_limited_to_a_message(self):
        half = {f'm{number}': 1 for number in range(history.WEIGHTS_MAX // 2)}
        words = {f'p{number}': [(5, half, 1021), (9, {'x': 1}, 1021)]
                 for number in range(4)}
        agreed = majority.agreed([words], {
            pool_id: {*half, 'x'} for pool_id in words})
        AGED.check(agreed)
        self.assertEqual({'p0': 2}, {
            pool_id: len(changes) for pool_id, changes in agreed.items()})

    def test_no_reports_give_no_history(self):
        self.assertEqual({}, majority.agreed([], {'pool': {'a'}}))
        self.assertEqual([], self.told([], []))
