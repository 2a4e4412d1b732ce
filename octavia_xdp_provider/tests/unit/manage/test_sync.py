# SPDX-License-Identifier: Apache-2.0

from unittest import mock

from octavia_xdp_provider.controller.octavia import client
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.controller import base as store_base
from octavia_xdp_provider.tests.unit.manage import base

OTHER = '4a1c2f5e-0d1b-4a63-9d5e-3f1a2b4c5d6e'


class TestSync(base.ManageTestCase):

    def setUp(self):
        super().setUp()
        self.octavia = store_base.FakeOctavia()
        self.enterContext(mock.patch.object(
            client, 'Octavia', lambda conf: self.octavia))
        self.document = unit.document()
        self.store.load_balancers.create(self.document)
        self.octavia.commit(self.document)
        self.octavia.trees['lb'] = dict.fromkeys(
            self.octavia.trees['lb'], 'ACTIVE')
        with self.store.database.write() as session:
            session.query(models.LoadBalancer).update({
                'changed_at': 0.0,
                'compared_at': self.octavia.updated_at['lb']})
            session.query(models.Work).delete()

    def sync(self, *options):
        """Return (exit status, listed lines)."""
        status, out, err = self.run_command(
            'sync', *options, '-f', 'value', '-c', 'load_balancer',
            '-c', 'drift', '-c', 'repaired')
        self.assertIn(status, (0, 2), err)
        return status, [line.strip() for line in out.splitlines()]

    def marked(self):
        return self.store.work.marked(['lb'])

    def test_equal_load_balancer_is_not_listed(self):
        self.assertEqual((0, []), self.sync())
        self.assertEqual((0, []), self.sync('--deep'))

    def test_difference_is_listed_with_its_field_and_not_repaired(self):
        self.octavia.documents['lb']['name'] = 'changed'
        self.assertEqual((0, []), self.sync())
        self.assertEqual((2, ['lb differs']), self.sync('--deep'))
        _, out, _ = self.run_command('sync', '--deep')
        self.assertIn('loadbalancer.name', out)
        self.assertFalse(self.marked())

    def test_apply_queues_difference_for_workers(self):
        self.octavia.documents['lb']['name'] = 'changed'
        self.assertEqual((0, ['lb differs is looked at']),
                         self.sync('--deep', '--apply'))
        self.assertTrue(self.marked())

    def test_pending_load_balancer_is_listed(self):
        self.octavia.trees['lb']['loadbalancer', 'lb'] = 'PENDING_UPDATE'
        self.assertEqual((2, ['lb Octavia waits for it']), self.sync())

    def test_unknown_load_balancer_is_taken_over_with_apply_only(self):
        other = dict(unit.document(), id='other', vip_address='203.0.113.77',
                     listeners={}, pools={})
        self.octavia.commit(other)
        self.octavia.trees['other']['loadbalancer', 'other'] = 'ACTIVE'
        self.assertEqual((2, ['other not held here']), self.sync())
        self.assertIsNone(self.store.load_balancers.get('other'))
        self.assertEqual((0, ['other not held here is taken over']),
                         self.sync('--apply'))
        self.assertEqual('203.0.113.77', self.store.load_balancers.get(
            'other').document['vip_address'])

    def test_missing_load_balancer_is_removed_with_remove_only(self):
        self.octavia.lose('lb')
        for options in ((), ('--apply',)):
            self.assertEqual((2, ['lb not in Octavia']), self.sync(*options))
        self.assertFalse(self.store.load_balancers.get('lb').deleted)
        self.assertEqual((0, ['lb not in Octavia is removed']),
                         self.sync('--remove'))
        self.assertTrue(self.store.load_balancers.get('lb').deleted)

    def test_incomplete_list_removes_nothing(self):
        listed = self.octavia.listed
        self.octavia.listed = lambda: iter(())
        self.sync('--remove')
        self.assertFalse(self.store.load_balancers.get('lb').deleted)
        self.octavia.listed = listed

    def test_unselected_load_balancers_are_not_changed(self):
        self.octavia.lose('lb')
        self.assertEqual((0, []),
                         self.sync('--remove', '--load-balancer', OTHER))
        self.assertEqual((0, []), self.sync('--remove', '--node', 'lb9'))
        self.assertEqual((0, []), self.sync('--remove', '--project', 'x'))
        self.assertFalse(self.store.load_balancers.get('lb').deleted)

    def test_load_balancer_is_selected_by_name_or_project(self):
        self.octavia.lose('lb')
        for options in (('--load-balancer', 'web'), ('--project', 'p')):
            self.assertEqual((2, ['lb not in Octavia']),
                             self.sync(*options))
        self.assertIn('no load balancer',
                      self.refused('sync', '--load-balancer', 'wbe'))

    def test_unavailable_octavia_is_an_error(self):
        self.octavia.available = False
        error = self.refused('sync')
        self.assertIn('nothing was compared', error)
