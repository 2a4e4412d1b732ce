# SPDX-License-Identifier: Apache-2.0

import copy

from octavia_xdp_provider.contracts import changes
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.tests.unit import base


def change(kind, action, object_id, **more):
    return dict(more, object=kind, action=action, object_id=object_id)


class TestSpec(base.TestCase):

    def setUp(self):
        super().setUp()
        self.document = base.document()
        self.before = copy.deepcopy(self.document)

    def apply(self, *arguments, **more):
        result = changes.apply(self.document, change(*arguments, **more))
        self.assertEqual(self.before, self.document, 'argument changed')
        return result

    def test_defaults_are_filled_in(self):
        pool = self.document['pools']['pool']
        self.assertEqual(1, pool['members']['m1']['weight'])
        self.assertEqual(3, pool['healthmonitor']['max_retries_down'])
        self.assertEqual('GET', pool['healthmonitor']['http_method'])
        self.assertTrue(self.document['admin_state_up'])

    def test_objects_are_listed_with_their_kinds(self):
        self.assertEqual(
            {('loadbalancer', 'lb'), ('listener', 'listener'),
             ('pool', 'pool'), ('member', 'm1'), ('member', 'm2'),
             ('healthmonitor', 'hm')}, spec.objects(self.document))

    def test_update_changes_only_what_it_names(self):
        result = self.apply('member', 'update', 'm1', pool_id='pool',
                            fields={'weight': 7})
        self.assertEqual(7, result['pools']['pool']['members']['m1'][
            'weight'])
        self.assertEqual('198.18.10.11', result['pools']['pool'][
            'members']['m1']['address'])

    def test_null_in_an_update_means_default(self):
        result = self.apply('member', 'update', 'm1', pool_id='pool',
                            fields={'weight': None})
        self.assertEqual(1, result['pools']['pool']['members']['m1'][
            'weight'])

    def test_creating_twice_is_no_error(self):
        once = self.apply('member', 'create', 'm3', pool_id='pool',
                          fields=base.member('198.18.10.13'))
        again = changes.apply(once, change(
            'member', 'create', 'm3', pool_id='pool',
            fields=base.member('198.18.10.13')))
        self.assertEqual(once, again)

    def test_deleting_twice_is_no_error(self):
        once = self.apply('listener', 'delete', 'listener')
        self.assertEqual(once, changes.apply(
            once, change('listener', 'delete', 'listener')))

    def test_deleted_pool_leaves_its_listener(self):
        result = self.apply('pool', 'delete', 'pool')
        self.assertIsNone(result['listeners']['listener']['default_pool_id'])

    def test_created_pool_joins_its_listener(self):
        self.document['listeners']['listener']['default_pool_id'] = None
        self.before = copy.deepcopy(self.document)
        result = self.apply('pool', 'create', 'new', listener_id='listener',
                            fields={'protocol': 'TCP'})
        self.assertEqual('new', result['listeners']['listener'][
            'default_pool_id'])
        self.assertEqual({}, result['pools']['new']['members'])

    def test_replace_keeps_adds_and_removes_members(self):
        result = self.apply('member', 'replace', None, pool_id='pool',
                            members={'m2': {'weight': 9},
                                     'm3': base.member('198.18.10.13')})
        members = result['pools']['pool']['members']
        self.assertEqual({'m2', 'm3'}, set(members))
        self.assertEqual('198.18.10.12', members['m2']['address'])
        self.assertEqual(9, members['m2']['weight'])

    def persistence(self, document, **given):
        result = changes.apply(document, change(
            'pool', 'update', 'pool', fields={
                'session_persistence': given or None}))
        return result, result['pools']['pool']['session_persistence']

    def test_session_persistence_changes_what_is_named(self):
        self.assertIsNone(
            self.document['pools']['pool']['session_persistence'])
        document, persistence = self.persistence(
            self.document, type='SOURCE_IP', persistence_timeout=20)
        self.assertEqual(
            {'type': 'SOURCE_IP', 'persistence_timeout': 20,
             'persistence_granularity': None}, persistence)
        document, persistence = self.persistence(
            document, persistence_granularity='255.255.0.0')
        self.assertEqual(
            {'type': 'SOURCE_IP', 'persistence_timeout': 20,
             'persistence_granularity': '255.255.0.0'}, persistence)
        document, persistence = self.persistence(document,
                                                 persistence_timeout=None)
        self.assertIsNone(persistence['persistence_timeout'])
        self.assertIsNone(self.persistence(document)[1])

    def test_older_document_is_completed(self):
        old = copy.deepcopy(self.document)
        del old['listeners']['listener']['allowed_cidrs']
        del old['pools']['pool']['session_persistence']
        for member in old['pools']['pool']['members'].values():
            del member['backup']
        self.assertEqual(self.document, spec.complete(old))
        self.assertEqual(self.document, spec.complete(self.document))

    def test_update_of_unknown_objects(self):
        for kind in ('member', 'healthmonitor', 'listener', 'pool'):
            self.assertRaises(
                errors.UnknownObject, changes.apply, self.document,
                change(kind, 'update', 'nobody', pool_id='nobody',
                       fields={}))

    def test_health_monitor_comes_changes_and_goes(self):
        result = self.apply('healthmonitor', 'delete', 'hm', pool_id='pool')
        self.assertIsNone(result['pools']['pool']['healthmonitor'])
        result = self.apply('healthmonitor', 'update', 'hm', pool_id='pool',
                            fields={'delay': 9})
        self.assertEqual(9, result['pools']['pool']['healthmonitor'][
            'delay'])
        self.assertEqual('hm', result['pools']['pool']['healthmonitor'][
            'id'])


class TestDifferences(base.TestCase):

    def test_fields_only_the_other_knows_do_not_count(self):
        tree = base.tree()
        tree['pools']['pool']['members']['m1']['subnet_id'] = 'x'
        self.assertEqual([], spec.differences(
            base.document(), spec.document('lb', tree)))

    def test_every_kind_of_difference_is_named(self):
        tree = base.tree(name='other')
        tree['listeners']['listener']['protocol_port'] = 81
        pool = tree['pools']['pool']
        pool['lb_algorithm'] = 'other'
        pool['healthmonitor']['delay'] = 99
        pool['members']['m1']['weight'] = 9
        del pool['members']['m2']
        self.assertEqual(
            ['member m2', 'loadbalancer.name',
             'listener listener.protocol_port', 'pool pool.lb_algorithm',
             'member m1.weight', 'healthmonitor of pool pool.delay'],
            spec.differences(base.document(), spec.document('lb', tree)))
