# SPDX-License-Identifier: Apache-2.0
"""Pending changes: no effect, one answer, nothing after the deadline."""

import json
import uuid

from alembic import command
import fixtures
import sqlalchemy as sa

from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import spec
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import schema
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import base as store_base


def created(key='lb', **fields):
    return {'object': 'loadbalancer', 'action': 'create', 'object_id': key,
            'load_balancer_id': key, 'fields': base.tree(**fields)}


def deleted(key='lb'):
    return {'object': 'loadbalancer', 'action': 'delete', 'object_id': key,
            'load_balancer_id': key}


def member(action, key='m3', **more):
    return dict({'object': 'member', 'action': action, 'object_id': key,
                 'pool_id': 'pool'}, **more)


ADDED = member('create', fields=base.member('198.18.10.13'))


class RequestsTestCase(store_base.StoreTestCase):

    def request(self, change, request=None, seconds=30):
        return self.store.request(
            change, request or str(uuid.uuid4()),
            self.store.now() + seconds).load_balancer_id

    def pending(self, key='lb'):
        row = self.store.load_balancer(key)
        return row and row.pending

    def work(self):
        with self.store._read() as session:
            return {key for key, in session.query(
                models.Work.load_balancer_id)}


class TestRequests(RequestsTestCase):

    def test_a_pending_creation_is_stored_for_nobody(self):
        self.assertEqual('lb', self.request(created(), 'r'))
        row = self.store.load_balancer('lb')
        self.assertEqual((0, base.document()), (row.generation, row.document))
        self.assertEqual(('r', created(), base.document()), (
            row.pending['request'], row.pending['change'],
            row.pending['expected']))
        self.assertEqual({'lb'}, self.work())

    def test_a_pending_change_leaves_the_document(self):
        generation = self.store.create(base.document())
        self.assertEqual('lb', self.request(ADDED))
        row = self.store.load_balancer('lb')
        self.assertEqual((generation, base.document()),
                         (row.generation, row.document))
        self.assertIn('m3', row.pending['expected']['pools']['pool'][
            'members'])

    def test_a_pending_deletion_leaves_the_load_balancer(self):
        self.store.create(base.document())
        self.request(deleted())
        row = self.store.load_balancer('lb')
        self.assertFalse(row.deleted)
        self.assertIsNone(row.pending['expected'])

    def test_a_deletion_of_what_is_not_held_waits_for_its_commit(self):
        self.request(deleted('other'), 'r')
        with self.store._read() as session:
            row = session.get(models.Tombstone, 'other')
            self.assertEqual('r', json.loads(row.pending)['request'])
        self.assertEqual({'other'}, self.work())

    def test_nothing_is_stored_after_the_deadline(self):
        self.store.create(base.document())
        self.assertRaises(errors.TooLate, self.request, ADDED, seconds=-1)
        self.assertIsNone(self.pending())
        self.assertRaises(errors.TooLate, self.request,
                          created('lb2', vip_address='203.0.113.11',
                                  pools={}, listeners={}), seconds=-1)
        self.assertIsNone(self.store.load_balancer('lb2'))

    def test_the_same_request_has_one_effect_and_one_answer(self):
        self.store.create(base.document())
        self.assertEqual('lb', self.request(ADDED, 'first'))
        newer = member('delete', 'm1')
        self.request(newer, 'second')
        # The broker delivers the first one once more.
        self.assertEqual('lb', self.request(ADDED, 'first'))
        self.assertEqual('second', self.pending()['request'])

    def test_a_newer_change_replaces_one_that_was_rolled_back(self):
        self.store.create(base.document())
        self.request(ADDED)
        self.request(member('delete', 'm1'))
        self.assertEqual({'m2'}, set(
            self.pending()['expected']['pools']['pool']['members']))

    def test_a_canceled_change_is_dropped(self):
        self.store.create(base.document())
        self.request(ADDED, 'r')
        self.assertEqual('lb', self.store.cancel('r'))
        self.assertIsNone(self.pending())
        self.assertEqual(base.document(),
                         self.store.load_balancer('lb').document)

    def test_a_canceled_creation_leaves_nothing(self):
        self.request(created(), 'r')
        self.store.cancel('r')
        self.assertIsNone(self.store.load_balancer('lb'))
        self.request(created('other', pools={}, listeners={}))

    def test_a_cancel_that_comes_first_is_remembered(self):
        self.store.create(base.document())
        self.assertIsNone(self.store.cancel('r'))
        self.assertRaises(errors.TooLate, self.request, ADDED, 'r')
        self.assertIsNone(self.pending())

    def test_a_cancel_leaves_a_newer_change(self):
        self.store.create(base.document())
        self.request(ADDED, 'first')
        self.request(member('delete', 'm1'), 'second')
        self.assertIsNone(self.store.cancel('first'))
        self.assertEqual('second', self.pending()['request'])

    def test_what_is_not_there_is_not_changed(self):
        self.assertRaises(errors.UnknownObject, self.request, ADDED)
        self.store.create(base.document())
        for change in (member('update', 'nobody', fields={'weight': 1}),
                       dict(ADDED, pool_id='nobody')):
            self.assertRaises(errors.UnknownObject, self.request, change)
        self.store.delete('lb')
        self.assertRaises(errors.UnknownObject, self.request, ADDED)

    def test_what_is_refused_is_not_stored(self):
        self.store.create(base.document())
        self.assertRaises(errors.Refused, self.request, member(
            'create', fields=base.member('198.18.10.13', protocol_port=81)))
        self.assertIsNone(self.pending())

    def test_old_requests_are_forgotten(self):
        self.useFixture(fixtures.MonkeyPatch(
            'octavia_xdp_provider.controller.store.requests.FORGET_SHARE',
            1.0))
        self.request(created(), 'r')
        with self.store._write() as session:
            session.get(models.AnsweredRequest, 'r').at = 0
        self.request(created('lb2', vip_address='203.0.113.11', pools={},
                             listeners={}))
        with self.store._read() as session:
            self.assertIsNone(session.get(models.AnsweredRequest, 'r'))


class TestAddresses(RequestsTestCase):
    """A VIP is never a member, in whichever order they come."""

    def small(self, key, vip, *members, **more):
        """A load balancer with these members."""
        return created(key, vip_address=vip, listeners={}, pools={
            f'pool-{key}': {
                'protocol': 'TCP', 'lb_algorithm': 'SOURCE_IP_PORT',
                'members': {f'm{number}': base.member(address, **more)
                            for number, address in enumerate(members)}}})

    def promote(self, key):
        with self.store._write() as session:
            row = session.get(models.LoadBalancer, key)
            self.store._set_document(
                session, row, json.loads(row.pending)['expected'],
                self.store._next_generation(session))
            row.pending = None

    def test_a_vip_has_one_load_balancer(self):
        self.request(self.small('one', '203.0.113.10'))
        self.assertRaises(errors.Conflict, self.request,
                          self.small('two', '203.0.113.10'))
        self.assertIsNone(self.store.load_balancer('two'))

    def test_a_vip_is_free_once_its_load_balancer_is_deleted(self):
        self.request(self.small('one', '203.0.113.10'))
        self.promote('one')
        self.store.delete('one')
        self.request(self.small('two', '203.0.113.10'))

    def test_no_member_is_a_vip(self):
        self.request(self.small('one', '203.0.113.10', '198.18.10.11'))
        for more in ({}, {'monitor_address': '203.0.113.10'}):
            address = '198.18.10.12' if more else '203.0.113.10'
            error = self.assertRaises(
                errors.Refused, self.request,
                self.small('two', '203.0.113.11', address, **more))
            self.assertEqual('address', error.option)

    def test_no_vip_is_a_member(self):
        self.request(self.small('one', '203.0.113.10', '203.0.113.11'))
        error = self.assertRaises(errors.Refused, self.request,
                                  self.small('two', '203.0.113.11'))
        self.assertEqual('vip_address', error.option)

    def test_neither_is_a_load_balancers_own(self):
        error = self.assertRaises(
            errors.Refused, self.request,
            self.small('one', '2001:db8::1', '2001:db8::2',
                       monitor_address='2001:db8::1'))
        self.assertIn('2001:db8::1', str(error))

    def test_what_a_pending_change_removes_is_held_until_it_is_certain(self):
        self.request(self.small('one', '203.0.113.10', '203.0.113.11'))
        self.promote('one')
        self.request({'object': 'member', 'action': 'delete',
                      'object_id': 'm0', 'pool_id': 'pool-one'}, 'r')
        self.assertRaises(errors.Refused, self.request,
                          self.small('two', '203.0.113.11'))
        self.promote('one')
        self.request(self.small('two', '203.0.113.11'))

    def test_what_a_pending_change_adds_is_held_until_it_is_dropped(self):
        self.request(self.small('one', '203.0.113.10'))
        self.promote('one')
        self.request({'object': 'member', 'action': 'create',
                      'object_id': 'm0', 'pool_id': 'pool-one',
                      'fields': base.member('203.0.113.11')}, 'r')
        self.assertRaises(errors.Refused, self.request,
                          self.small('two', '203.0.113.11'))
        self.store.cancel('r')
        self.request(self.small('two', '203.0.113.11'))

    def test_many_may_have_one_member(self):
        self.request(self.small('one', '203.0.113.10', '198.18.10.11'))
        self.request(self.small('two', '203.0.113.11', '198.18.10.11'))

    def test_members_of_load_balancers_with_one_dscp_differ(self):
        def of(key, vip, address):
            return self.small(key, vip, address) | {'fields': dict(
                self.small(key, vip, address)['fields'],
                flavor={'encapsulation': 'dscp', 'dscp': 5})}
        self.request(of('one', '203.0.113.10', '198.18.10.11'))
        self.request(of('two', '203.0.113.11', '198.18.10.12'))
        error = self.assertRaises(
            errors.Refused, self.request,
            of('three', '203.0.113.12', '198.18.10.11'))
        self.assertIn('DSCP', str(error))

    def test_addresses_are_held_that_were_stored_before_the_tables(self):
        manager = schema.context_manager(self.load(
            f'[database]\nconnection = {self.database()}\n'))
        engine = manager.writer.get_engine()
        command.upgrade(schema._alembic(engine), '0004')
        document = spec.document('lb', base.tree())
        document['pools']['pool']['members']['m1'].update(
            monitor_address='2001:DB8::1')
        with engine.begin() as connection:
            connection.execute(sa.text(
                'INSERT INTO load_balancers (id, vip_address, document, '
                'generation, sent_generation, failed_generation, removed, '
                "deleted, changed_at) VALUES ('lb', '203.0.113.10', "
                ":document, 7, 6, 5, '[]', false, 0)"),
                {'document': json.dumps(document)})
        schema.upgrade(manager)
        self.store = queries.Store(manager)
        self.assertRaises(errors.Conflict, self.request,
                          self.small('two', '203.0.113.10'))
        for address in ('198.18.10.12', '2001:db8::1'):
            self.assertRaises(errors.Refused, self.request,
                              self.small('two', address))
