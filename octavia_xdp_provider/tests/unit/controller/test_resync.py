# SPDX-License-Identifier: Apache-2.0
"""Consequences of Octavia's list; above all, those that must not happen."""

from unittest import mock

import fixtures

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller import comparison
from octavia_xdp_provider.controller import resync
from octavia_xdp_provider.controller.octavia import errors
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import base as store_base


def document(key, number, **more):
    return spec.document(key, base.tree(
        vip_address=f'203.0.113.{number}', listeners={}, pools={}, **more))


class ResyncTestCase(store_base.StoreTestCase):
    """Load balancers lb1, lb2, … are stored here, and ACTIVE in Octavia."""

    NUMBER = 3

    def setUp(self):
        super().setUp()
        self.hold_time()
        self.options = self.conf.controller
        self.octavia = store_base.FakeOctavia()
        self.keys = [f'lb{number}' for number in range(1, self.NUMBER + 1)]
        for number, key in enumerate(self.keys, 1):
            self.store.load_balancers.create(document(key, number))
            self.commit(document(key, number), 'ACTIVE')
        self.now += self.options.confirm_timeout + 1
        self.token = 1
        self.changed = mock.Mock()
        self.resync = resync.Resync(self.conf, self.store, self.octavia,
                                    self.changed)
        self.settle()

    def commit(self, document, status):
        self.octavia.commit(document)
        key = document['id']
        self.octavia.trees[key]['loadbalancer', key] = status

    def run_once(self):
        self.resync.run(lambda: self.token)

    def work(self):
        """Make the comparisons that workers make, and return the ids."""
        items = self.store.work.claim('test', 100, 60)
        for item in items:
            row = self.store.load_balancers.get(item.load_balancer_id)
            if row is not None and row.to_be_compared:
                comparison.Comparison(self.store, self.octavia).compare(row)
            self.store.work.finish(item, 'test')
        return {item.load_balancer_id for item in items}

    def settle(self):
        self.run_once()
        self.work()

    def held(self):
        return {row.id for row in self.store.load_balancers.select()
                if not row.deleted}


class TestMissing(ResyncTestCase):

    def wait_out(self, lists=None):
        """Read as many lists, over as much time, as confirm a removal."""
        lists = lists or self.options.orphan_lists
        for _ in range(lists):
            self.run_once()
            self.now += self.options.orphan_age / (lists - 1) + 1

    def test_empty_list_removes_nothing(self):
        for key in self.keys:
            self.octavia.lose(key)
        self.run_once()
        self.assertEqual(set(self.keys), self.held())
        self.now += 10 * self.options.orphan_age
        self.assertEqual(set(self.keys), self.held())

    def test_load_balancer_missing_in_several_lists_is_removed(self):
        self.octavia.lose('lb2')
        self.wait_out()
        self.run_once()
        self.assertEqual({'lb1', 'lb3'}, self.held())
        self.assertIn('lb2', self.work())

    def test_many_lists_within_a_moment_remove_nothing(self):
        self.octavia.lose('lb2')
        for _ in range(10 * self.options.orphan_lists):
            self.run_once()
        self.assertEqual(set(self.keys), self.held())

    def test_load_balancer_that_comes_back_begins_anew(self):
        lost = self.octavia.trees['lb2']
        for _ in range(2 * self.options.orphan_lists):
            self.octavia.lose('lb2')
            for _ in range(self.options.orphan_lists - 1):
                self.run_once()
                self.now += self.options.orphan_age
            self.octavia.trees['lb2'] = dict(lost)
            self.run_once()
        self.assertEqual(set(self.keys), self.held())

    def test_removals_beyond_the_quota_are_logged_instead(self):
        self.conf.set_override('orphan_removals_max', 2, 'controller')
        log = self.useFixture(fixtures.FakeLogger())
        for key in self.keys:
            self.octavia.lose(key)
        self.wait_out()
        self.wait_out()
        self.assertEqual(set(self.keys), self.held())
        self.assertEqual(1, log.output.count('orphan_removals_max'))
        # With one of them back, the others are within the quota.
        self.commit(document('lb1', 1), 'ACTIVE')
        self.run_once()
        self.assertEqual({'lb1'}, self.held())

    def test_incomplete_list_has_no_effect(self):
        self.octavia.lose('lb2')
        self.octavia.available = False
        for _ in range(self.options.orphan_lists + 1):
            self.assertRaises(errors.OctaviaUnavailable, self.run_once)
            self.now += self.options.orphan_age
        self.octavia.available = True
        self.run_once()
        self.assertEqual(set(self.keys), self.held())

    def test_former_leader_changes_nothing(self):
        self.octavia.lose('lb2')
        self.token = None
        self.wait_out()
        self.run_once()
        self.token = 1
        self.run_once()
        self.assertEqual(set(self.keys), self.held())

    def test_load_balancer_that_has_just_changed_may_be_missing(self):
        self.store.load_balancers.create(document('new', 9))
        difference = self.resync.look()
        self.assertEqual([], difference.missing)
        self.now += self.options.confirm_timeout + 1
        self.assertEqual(['new'], self.resync.look().missing)


class TestDrift(ResyncTestCase):

    def test_unchanged_load_balancers_are_not_compared(self):
        self.run_once()
        self.assertEqual(set(), self.work())

    def test_only_changed_load_balancers_are_compared(self):
        self.commit(document('lb2', 2, name='new'), 'ACTIVE')
        self.run_once()
        self.assertEqual({'lb2'}, self.work())
        self.assertEqual('new',
                         self.store.load_balancers.get('lb2').document['name'])
        self.settle()
        self.run_once()
        self.assertEqual(set(), self.work())

    def test_pending_objects_are_sent(self):
        row = self.store.load_balancers.get('lb3')
        self.store.sent_statuses.note('lb3', row.generation, active=True)
        self.assertEqual((), self.store.load_balancers.get('lb3').unconfirmed)
        self.octavia.trees['lb3']['loadbalancer', 'lb3'] = 'PENDING_UPDATE'
        self.run_once()
        self.assertEqual({'lb3'}, self.work())
        self.assertEqual((('loadbalancer', 'lb3', 0),),
                         self.store.load_balancers.get('lb3').unconfirmed)

    def test_unknown_load_balancer_is_taken_over_at_the_second_list(self):
        self.commit(document('lb9', 9), 'ACTIVE')
        self.run_once()
        self.assertNotIn('lb9', self.held())
        self.run_once()
        self.assertIn('lb9', self.held())


class TestComparison(ResyncTestCase):

    def compare(self, key, row=None):
        comparison.Comparison(self.store, self.octavia).compare(
            row or self.store.load_balancers.get(key))

    def test_answer_without_it_removes_nothing(self):
        for answer in ({'tree.return_value': None},
                       {'document.return_value': None,
                        'tree.return_value': {}},
                       {'tree.return_value': None,
                        'document.return_value': None}):
            octavia = mock.Mock(**{
                'document.return_value': document('lb1', 1), **answer})
            for _ in range(10):
                comparison.Comparison(self.store, octavia).compare(
                    self.store.load_balancers.get('lb1'))
        self.assertIn('lb1', self.held())
        self.assertEqual('web',
                         self.store.load_balancers.get('lb1').document['name'])

    def test_load_balancer_that_octavia_deletes_is_removed(self):
        self.octavia.trees['lb1']['loadbalancer', 'lb1'] = 'PENDING_DELETE'
        self.compare('lb1')
        self.assertNotIn('lb1', self.held())

    def test_concurrent_change_is_not_undone(self):
        """Octavia's answer is older than the stored document."""
        old = self.store.load_balancers.get('lb1')
        self.commit(document('lb1', 1, name='theirs'), 'ACTIVE')
        self.store.load_balancers.change('lb1', lambda stored: dict(
            stored, name='newer'))
        self.compare('lb1', old)
        self.assertEqual('newer',
                         self.store.load_balancers.get('lb1').document['name'])
        self.octavia.trees['lb1']['loadbalancer', 'lb1'] = 'PENDING_DELETE'
        self.compare('lb1', old)
        self.assertIn('lb1', self.held())


class TestAdoption(store_base.StoreTestCase):
    """A comparison keeps attributes that Octavia does not show."""

    def test_zone_and_defaults_of_the_creation_are_kept(self):
        created = base.document(availability_zone={'zone': 'east'}, flavor={
            'algorithms_served_by_hash': ['ROUND_ROBIN']})
        created['pools']['pool']['lb_algorithm'] = 'ROUND_ROBIN'
        self.store.load_balancers.create(created)
        committed = base.document(name='new')
        committed['pools']['pool']['lb_algorithm'] = 'ROUND_ROBIN'
        octavia = mock.Mock()
        octavia.tree.return_value = {}
        octavia.document.return_value = committed
        comparison.Comparison(self.store, octavia).compare(
            self.store.load_balancers.get('lb'))
        stored = self.store.load_balancers.get('lb').document
        self.assertEqual('new', stored['name'])
        for name in ('flavor', 'availability_zone'):
            self.assertEqual(created[name], stored[name])


PENDING = {('loadbalancer', 'lb'), ('pool', 'pool')}
DYING = {('member', 'm9')}


class TestStaleComparison(store_base.StoreTestCase):
    """An object that Octavia showed as PENDING before a change arrived may be
    pending because of that change, which no node has applied."""

    def setUp(self):
        super().setUp()
        self.generation = self.store.load_balancers.create(base.document())
        self.store.sent_statuses.note('lb', self.generation, statuses={},
                                      active=True, deleted=True)

    def compared(self):
        """Return what is due after a comparison that began earlier."""
        self.store.sent_statuses.note_compared('lb', self.generation, 'then',
                                               PENDING, DYING)
        row = self.store.load_balancers.get('lb')
        return {item[:2] for item in row.unconfirmed}, {
            item[:2] for item in row.removed}

    def test_pending_objects_are_sent(self):
        self.assertEqual((PENDING, DYING), self.compared())

    def test_pending_change_is_not_made_active(self):
        self.store.requests.add(
            {'object': 'member', 'action': 'update', 'object_id': 'm1',
             'pool_id': 'pool', 'fields': {'weight': 2}}, 'request')
        self.assertEqual((set(), set()), self.compared())

    def test_later_change_is_not_made_active(self):
        self.store.load_balancers.change('lb', lambda document: document)
        self.assertEqual((set(), set()), self.compared())
