# SPDX-License-Identifier: Apache-2.0
"""Pending changes: no effect, one answer, nothing after the deadline."""

import json

import fixtures

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import requesting
from octavia_xdp_provider.tests.unit.controller.requesting import ADDED
from octavia_xdp_provider.tests.unit.controller.requesting import created
from octavia_xdp_provider.tests.unit.controller.requesting import deleted
from octavia_xdp_provider.tests.unit.controller.requesting import member


class Requests(requesting.RequestsTestCase):

    def test_pending_creation_is_not_visible_to_nodes(self):
        self.assertEqual('lb', self.request(created(), 'r'))
        row = self.store.load_balancers.get('lb')
        self.assertEqual((0, base.document()), (row.generation, row.document))
        self.assertEqual(('r', created(), base.document()), (
            row.pending['request'], row.pending['change'],
            row.pending['expected']))
        self.assertEqual({'lb'}, self.work())

    def test_pending_change_leaves_the_document(self):
        generation = self.store.load_balancers.create(base.document())
        self.assertEqual('lb', self.request(ADDED))
        row = self.store.load_balancers.get('lb')
        self.assertEqual((generation, base.document()),
                         (row.generation, row.document))
        self.assertIn('m3', row.pending['expected']['pools']['pool'][
            'members'])

    def test_pending_deletion_leaves_the_load_balancer(self):
        self.store.load_balancers.create(base.document())
        self.request(deleted())
        row = self.store.load_balancers.get('lb')
        self.assertFalse(row.deleted)
        self.assertIsNone(row.pending['expected'])

    def test_deletion_of_unknown_load_balancer_waits_for_its_commit(self):
        self.request(deleted('other'), 'r')
        with self.store.database.read() as session:
            row = session.get(models.Tombstone, 'other')
            self.assertEqual('r', json.loads(row.pending)['request'])
        self.assertEqual({'other'}, self.work())

    def test_nothing_is_stored_after_the_deadline(self):
        self.store.load_balancers.create(base.document())
        self.assertRaises(errors.TooLate, self.request, ADDED, seconds=-1)
        self.assertIsNone(self.pending())
        self.assertRaises(errors.TooLate, self.request,
                          created('lb2', vip_address='203.0.113.11',
                                  pools={}, listeners={}), seconds=-1)
        self.assertIsNone(self.store.load_balancers.get('lb2'))

    def test_repeated_request_has_one_effect_and_one_answer(self):
        self.store.load_balancers.create(base.document())
        self.assertEqual('lb', self.request(ADDED, 'first'))
        newer = member('delete', 'm1')
        self.request(newer, 'second')
        # The broker delivers the first one once more.
        self.assertEqual('lb', self.request(ADDED, 'first'))
        self.assertEqual('second', self.pending()['request'])

    def test_newer_change_replaces_a_rolled_back_one(self):
        self.store.load_balancers.create(base.document())
        self.request(ADDED)
        self.request(member('delete', 'm1'))
        self.assertEqual({'m2'}, set(
            self.pending()['expected']['pools']['pool']['members']))

    def test_cancelled_change_is_dropped(self):
        self.store.load_balancers.create(base.document())
        self.request(ADDED, 'r')
        self.assertEqual('lb', self.store.requests.cancel('r'))
        self.assertIsNone(self.pending())
        self.assertEqual(base.document(),
                         self.store.load_balancers.get('lb').document)

    def test_cancelled_creation_leaves_nothing(self):
        self.request(created(), 'r')
        self.store.requests.cancel('r')
        self.assertIsNone(self.store.load_balancers.get('lb'))
        self.request(created('other', pools={}, listeners={}))

    def test_early_cancel_is_remembered(self):
        self.store.load_balancers.create(base.document())
        self.assertIsNone(self.store.requests.cancel('r'))
        self.assertRaises(errors.TooLate, self.request, ADDED, 'r')
        self.assertIsNone(self.pending())

    def test_cancel_leaves_a_newer_change(self):
        self.store.load_balancers.create(base.document())
        self.request(ADDED, 'first')
        self.request(member('delete', 'm1'), 'second')
        self.assertIsNone(self.store.requests.cancel('first'))
        self.assertEqual('second', self.pending()['request'])

    def test_change_of_unknown_object_is_refused(self):
        self.assertRaises(errors.UnknownObject, self.request, ADDED)
        self.store.load_balancers.create(base.document())
        for change in (member('update', 'nobody', fields={'weight': 1}),
                       dict(ADDED, pool_id='nobody')):
            self.assertRaises(errors.UnknownObject, self.request, change)
        self.store.load_balancers.delete('lb')
        self.assertRaises(errors.Conflict, self.request, ADDED)

    def test_refused_change_is_not_stored(self):
        self.store.load_balancers.create(base.document())
        self.assertRaises(errors.Refused, self.request, member(
            'create', fields=base.member('198.18.10.13', protocol_port=81)))
        self.assertIsNone(self.pending())

    def refused(self, change):
        error = self.assertRaises(errors.Refused, self.request, change)
        self.assertEqual('connection_limit', error.option)
        for text in ('forwarding nat', 'leave it at -1'):
            self.assertIn(text, str(error))

    def test_connection_limit_needs_nat_in_every_change(self):
        on_nodes = {'flavor': {'forwarding': 'tunnel'}}
        tree = created(**on_nodes)
        listener = tree['fields']['listeners']['listener']
        listener['connection_limit'] = 10
        self.refused(tree)
        self.store.load_balancers.create(base.document(**on_nodes))
        path = {'object': 'listener', 'load_balancer_id': 'lb'}
        for action, key, fields in (
                ('create', 'more', {
                    **listener, 'protocol_port': 81,
                    'default_pool_id': None}),
                ('update', 'listener', {'connection_limit': 10})):
            change = dict(path, action=action, object_id=key, fields=fields)
            self.refused(change)
            fields['connection_limit'] = None
            self.request(change)

    def test_old_requests_are_forgotten(self):
        self.useFixture(fixtures.MonkeyPatch(
            'octavia_xdp_provider.controller.store.requests.FORGET_SHARE',
            1.0))
        self.request(created(), 'r')
        with self.store.database.write() as session:
            session.get(models.AnsweredRequest, 'r').at = 0
        self.request(created('lb2', vip_address='203.0.113.11', pools={},
                             listeners={}))
        with self.store.database.read() as session:
            self.assertIsNone(session.get(models.AnsweredRequest, 'r'))
