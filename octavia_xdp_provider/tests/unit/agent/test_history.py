# SPDX-License-Identifier: Apache-2.0
"""The history of the members that took new flows, as an agent keeps it."""

import types
from unittest import mock

from octavia_xdp_provider.agent import history as histories
from octavia_xdp_provider.contracts import history
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import shape
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.process.agents import reports
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.agent import planning

NAMES = {'m1': datapath.MemberName('198.18.1.5'),
         'm2': datapath.MemberName('198.18.1.6'),
         'm3': datapath.MemberName('198.18.1.7')}
REPORTED = shape.Shape(messages.Report)
NOW = 5000


def named(key=planning.KEY, pool_id='pool', ids=('m1', 'm2', 'm3')):
    return {key: (pool_id, {NAMES[member_id]: member_id for member_id in ids})}


class FakeTables:
    """Services whose members take flows by their weights."""

    def __init__(self):
        self.services = {}
        self._members = {}

    def set(self, weights, packets=1, slots=1021, key=planning.KEY):
        before = self.services.get(key)
        generation = before.version[1] + 1 if before else 1
        self.services[key] = datapath.Summary(
            (0, generation, 0), 1, packets=packets, slots=slots)
        self._members[key] = {
            NAMES[member_id]: mock.Mock(takes_flows=weight > 0, weight=weight)
            for member_id, weight in weights.items()}

    def members(self, key):
        return self._members[key]


class HistoryTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.now = NOW
        self.enterContext(mock.patch.object(
            histories.history, 'clock', lambda: self.now))
        self.tables = FakeTables()
        self.plans = types.SimpleNamespace(plans={
            'lb': types.SimpleNamespace(named=named())})
        self.datapath = mock.Mock()
        self.without = mock.Mock()
        self.history = self.make()

    def make(self):
        return histories.History(self.datapath, self.tables, self.plans,
                                 self.without)

    def becomes(self, weights, **more):
        self.tables.set(weights, **more)
        self.history.look(['lb'])

    def remembered(self):
        return self.history.of('lb').get('pool', [])


class TestWhatIsRemembered(HistoryTestCase):

    def test_change_is_reported_with_the_earlier_weights(self):
        self.becomes({'m1': 1, 'm2': 2})
        self.assertEqual({}, self.history.of('lb'))
        self.becomes({'m1': 1, 'm2': 2, 'm3': 1})
        self.now += 30
        self.becomes({'m1': 1, 'm2': 0, 'm3': 3})
        self.assertEqual([
            {'members': {'m2': 2, 'm3': 1}, 'slots': 1021, 'at': NOW + 30},
            {'members': {'m3': 0}, 'slots': 1021, 'at': NOW}],
            self.remembered())

    def test_history_is_stable_without_changes(self):
        self.becomes({'m1': 1})
        self.becomes({'m1': 1, 'm2': 1})
        before = self.remembered()
        self.now += 100
        self.becomes({'m1': 1, 'm2': 1}, packets=2)
        self.assertEqual(before, self.remembered())

    def test_changed_number_of_slots_is_remembered(self):
        self.becomes({'m1': 1})
        self.becomes({'m1': 1}, slots=4093)
        self.assertEqual([{'members': {}, 'slots': 1021, 'at': NOW}],
                         self.remembered())

    def test_changes_before_the_first_packet_are_not_remembered(self):
        for weights in ({}, {'m1': 1}, {'m1': 1, 'm2': 1}):
            self.becomes(weights, packets=0)
        self.becomes({'m1': 1, 'm2': 1})
        self.assertEqual([], self.remembered())
        self.becomes({'m1': 1})
        self.assertEqual({'m2': 1}, self.remembered()[0]['members'])

    def test_new_agent_starts_from_the_current_weights(self):
        self.becomes({'m1': 1}, packets=100)
        self.history = self.make()
        self.becomes({'m1': 1, 'm2': 1}, packets=100)
        self.assertEqual([], self.remembered())

    def test_four_sets_are_remembered(self):
        for weight in range(1, 8):
            self.becomes({'m1': weight})
        self.assertEqual([6, 5, 4], [change['members']['m1']
                                     for change in self.remembered()])

    def test_removed_member_is_reported_by_its_name(self):
        removed = {'members': {}, 'slots': 1021, 'at': NOW, 'removed': [
            {'address': '198.18.1.6', 'port': 0, 'weight': 1}]}
        self.becomes({'m1': 1, 'm2': 1})
        self.plans.plans['lb'].named = named(ids=('m1',))
        self.becomes({'m1': 1})
        self.assertEqual([removed], self.remembered())
        self.becomes({'m1': 2})
        self.assertEqual([
            {'members': {'m1': 1}, 'slots': 1021, 'at': NOW}, removed],
            self.remembered())

    def test_member_that_drains_before_its_removal_is_reported(self):
        self.becomes({'m1': 1, 'm2': 1})
        self.becomes({'m1': 1})
        self.assertEqual([{'m2': 1}], [change['members']
                                       for change in self.remembered()])
        self.plans.plans['lb'].named = named(ids=('m1',))
        self.becomes({'m1': 1})
        change, = self.remembered()
        self.assertEqual(({}, 1), (change['members'],
                                   change['removed'][0]['weight']))

    def test_removed_load_balancer_is_forgotten(self):
        self.becomes({'m1': 1})
        self.becomes({'m2': 1})
        self.plans.plans.clear()
        self.history.look(['lb'])
        self.assertEqual({}, self.history.of('lb'))

    def test_report_is_bounded_and_controllers_take_it(self):
        ids = [f'm{number}' for number in range(history.WEIGHTS_MAX + 1)]
        members = {datapath.MemberName(f'198.18.2.{number}'): member_id
                   for number, member_id in enumerate(ids)}
        self.enterContext(mock.patch.dict(
            NAMES, {member_id: name for name, member_id in members.items()}))
        self.plans.plans['lb'].named = {
            planning.KEY: ('pool', members)}
        self.becomes(dict.fromkeys(ids[:100], 1))
        for weight in (2, 3, 4):
            self.becomes(dict.fromkeys(ids[:100], weight))
        self.assertEqual([3, 2], [change['members']['m0']
                                  for change in self.remembered()])
        REPORTED.check(reports.Reporter().next(reports.Facts(5, {'lb': {
            'generation': 1, 'error': None, 'members': {}, 'announced': True,
            'history': self.history.of('lb')}}))[2])
        # A change that is too large to report hides all earlier ones.
        self.becomes(dict.fromkeys(ids, 5))
        self.assertEqual([], self.remembered())


class TestWhatIsGiven(HistoryTestCase):

    def setUp(self):
        super().setUp()
        self.datapath.apply_history.return_value = True
        self.tables.set({'m1': 1}, packets=0)

    def give(self, age=25, members=('m2',)):
        self.history.given({'lb': {'pool': [{
            'members': dict.fromkeys(members, 0), 'slots': 1021,
            'age': age}]}})

    def given(self):
        return [call.args for call
                in self.datapath.apply_history.call_args_list]

    def test_services_get_it_before_anything_is_announced(self):
        self.assertFalse(self.history.apply())
        self.give()
        self.now += 5
        self.assertTrue(self.history.apply())
        self.assertEqual([(planning.KEY, [
            (30, 1021, {NAMES['m2']: 0})])], self.given())
        self.without.assert_not_called()

    def test_changed_table_gets_the_history_again(self):
        self.give()
        self.history.apply()
        self.tables.set({'m1': 1}, packets=0)  # as it was made by that
        self.assertFalse(self.history.apply())
        self.tables.set({'m1': 1, 'm2': 1}, packets=0)
        self.assertTrue(self.history.apply())
        self.assertEqual(2, len(self.given()))

    def test_history_ends_with_the_first_packet(self):
        self.give()
        self.history.apply()
        self.datapath.apply_history.return_value = False
        for _ in range(3):
            self.tables.set({'m1': 1, 'm2': 1})
            self.assertFalse(self.history.apply())
        self.assertEqual(2, len(self.given()))
        self.without.assert_not_called()

    def test_service_with_flows_gets_no_history(self):
        self.datapath.apply_history.return_value = False
        self.give()
        for _ in range(3):
            self.assertFalse(self.history.apply())
        self.assertEqual(1, len(self.given()))
        self.without.assert_called_once_with()

    def test_refused_history_does_not_stop_other_services(self):
        other = planning.KEY._replace(port=81)
        self.tables.set({'m1': 1}, packets=0, key=other)
        self.plans.plans['lb'].named = {**named(), **named(other)}
        self.datapath.apply_history.side_effect = [
            datapath.DatapathError(22, 'past weight 0: it is 257'), True]
        self.give()
        self.assertTrue(self.history.apply())
        self.without.assert_called_once_with()

    def test_stale_datapath_ends_the_agent(self):
        self.datapath.apply_history.side_effect = (
            datapath.DatapathError(116, 'stale'))
        self.give()
        self.assertRaises(datapath.DatapathError, self.history.apply)

    def test_given_history_is_remembered(self):
        self.give()
        self.history.apply()
        self.history.look(['lb'])
        self.now += 10
        self.becomes({'m1': 1})
        self.becomes({'m1': 2})
        self.assertEqual([
            {'members': {'m1': 1}, 'slots': 1021, 'at': NOW + 10},
            {'members': {'m2': 0}, 'slots': 1021, 'at': NOW - 25}],
            self.remembered())

    def test_later_answers_add_to_earlier_ones(self):
        other = planning.KEY._replace(address='203.0.113.11')
        self.give()
        self.history.apply()
        self.tables.set({'m1': 1}, packets=0, key=other)
        self.plans.plans['moved'] = types.SimpleNamespace(named=named(other))
        self.history.given({'moved': {'pool': [
            {'members': {'m2': 0}, 'slots': 1021, 'age': 7}]}})
        self.tables.set({'m1': 1, 'm3': 1}, packets=0)
        self.assertTrue(self.history.apply())
        self.assertEqual(
            {(planning.KEY, 25), (other, 7)},
            {(key, changes[0][0]) for key, changes in self.given()})

    def test_load_balancer_that_leaves_and_returns_gets_the_new_history(self):
        self.give()
        self.history.apply()
        self.history.forget({'lb'})
        self.tables.set({'m1': 1}, packets=0)
        self.assertFalse(self.history.apply())
        self.assertEqual({}, self.history.of('lb'))
        self.give(age=3)
        self.assertTrue(self.history.apply())
        self.assertEqual([25, 3], [changes[0][0]
                                   for _, changes in self.given()])

    def test_listener_that_is_added_later_hides_no_own_change(self):
        self.give()
        self.history.apply()
        self.becomes({'m1': 1})
        self.becomes({'m1': 2})
        before = self.remembered()
        later = planning.KEY._replace(port=81)
        self.tables.set({'m1': 2}, packets=0, key=later)
        self.plans.plans['lb'].named = {**named(), **named(later)}
        self.assertTrue(self.history.apply())
        self.assertEqual(before, self.remembered())
        self.assertEqual(2, len(before))

    def test_removed_members_are_given_by_name_and_reported_again(self):
        removed = [{'address': '198.18.1.9', 'port': 0, 'weight': 3}]
        self.history.given({'lb': {'pool': [
            {'members': {'m2': 1}, 'removed': removed, 'slots': 1021,
             'age': 5}]}})
        self.history.apply()
        self.assertEqual([(planning.KEY, [(5, 1021, {
            NAMES['m2']: 1, datapath.MemberName('198.18.1.9'): 3})])],
            self.given())
        self.history.look(['lb'])
        self.assertEqual([{'members': {'m2': 1}, 'removed': removed,
                           'slots': 1021, 'at': NOW - 5}], self.remembered())

    def test_unknown_objects_in_a_history_are_ignored(self):
        self.history.given({
            'foreign': {'pool': []}, 'lb': {'pool2': [], 'pool': [
                {'members': {'m9': 1}, 'slots': 1021, 'age': 5}]}})
        self.history.apply()
        self.assertEqual([(planning.KEY, [(5, 1021, {})])], self.given())

    def test_expired_history_is_not_applied(self):
        self.give(age=history.AGE_MAX_S - 1)
        self.now += 2
        self.assertFalse(self.history.apply())
        self.assertEqual([], self.given())
        self.without.assert_not_called()
