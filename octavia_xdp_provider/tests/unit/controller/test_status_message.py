# SPDX-License-Identifier: Apache-2.0

from octavia_xdp_provider.contracts import changes
from octavia_xdp_provider.controller import status_message
from octavia_xdp_provider.tests.unit import base

LB = ('loadbalancer', 'lb')
LISTENER = ('listener', 'listener')
POOL = ('pool', 'pool')


class TestMessage(base.TestCase):

    def test_both_statuses_of_an_object_share_a_record(self):
        self.assertEqual(
            {'members': [
                {'id': 'gone', 'provisioning_status': 'DELETED'},
                {'id': 'm', 'operating_status': 'ONLINE',
                 'provisioning_status': 'ACTIVE'}]},
            status_message.message(
                {('member', 'm'): 'ONLINE'}, {('member', 'm'): 'ACTIVE'},
                [('member', 'gone')]))

    def test_single_status_leaves_the_other_unchanged(self):
        self.assertEqual(
            {'pools': [{'id': 'p', 'operating_status': 'ERROR'}],
             'listeners': [{'id': 'l', 'provisioning_status': 'ACTIVE'}]},
            status_message.message({('pool', 'p'): 'ERROR'},
                                   {('listener', 'l'): 'ACTIVE'}))

    def test_sent_statuses_are_not_sent_again(self):
        self.assertEqual(
            {('pool', 'p'): 'ERROR', ('member', 'new'): 'ONLINE'},
            status_message.difference(
                {('pool', 'p'): 'ERROR', ('member', 'm'): 'ONLINE',
                 ('member', 'new'): 'ONLINE'},
                {('pool', 'p'): 'ONLINE', ('member', 'm'): 'ONLINE',
                 ('member', 'gone'): 'ONLINE'}))

    def test_all_pending_statuses_are_recognized(self):
        self.assertEqual({LB, ('member', 'new'), ('member', 'old')},
                         status_message.pending({
                             LB: 'PENDING_UPDATE', LISTENER: 'ACTIVE',
                             ('member', 'new'): 'PENDING_CREATE',
                             ('member', 'old'): 'PENDING_DELETE',
                             POOL: 'ERROR'}))


class TestMadePending(base.TestCase):

    def made(self, document=None, **change):
        before = document or base.document()
        return status_message.made_pending(
            before, changes.apply(before, change), change)

    def test_creation_of_load_balancer_includes_all_objects(self):
        after = base.document()
        self.assertEqual(
            {LB, LISTENER, POOL, ('member', 'm1'), ('member', 'm2'),
             ('healthmonitor', 'hm')},
            status_message.made_pending(None, after, {
                'object': 'loadbalancer', 'action': 'create',
                'object_id': 'lb'}))

    def test_update_of_load_balancer_includes_it_alone(self):
        self.assertEqual({LB}, self.made(
            object='loadbalancer', action='update', object_id='lb',
            fields={'name': 'x'}))

    def test_members_and_monitors_include_pool_and_listeners(self):
        above = {LB, LISTENER, POOL}
        for kind, key, action, fields in (
                ('member', 'm1', 'update', {'weight': 2}),
                ('member', 'm3', 'create', base.member('198.18.10.13')),
                ('healthmonitor', 'hm', 'update', {'delay': 9})):
            self.assertEqual(above | {(kind, key)}, self.made(
                object=kind, action=action, object_id=key, pool_id='pool',
                fields=fields))

    def test_deleted_objects_are_not_included(self):
        for kind, key in (('member', 'm1'), ('healthmonitor', 'hm')):
            self.assertEqual({LB, LISTENER, POOL}, self.made(
                object=kind, action='delete', object_id=key,
                pool_id='pool'))
        self.assertEqual({LB}, self.made(
            object='listener', action='delete', object_id='listener'))

    def test_listeners_of_a_deleted_pool_are_included(self):
        self.assertEqual({LB, LISTENER}, self.made(
            object='pool', action='delete', object_id='pool'))

    def test_batch_includes_all_its_members(self):
        self.assertEqual(
            {LB, LISTENER, POOL, ('member', 'm2'), ('member', 'm3')},
            self.made(object='member', action='replace', object_id=None,
                      pool_id='pool', members={
                          'm2': base.member('198.18.10.12'),
                          'm3': base.member('198.18.10.13')}))

    def test_other_listeners_are_not_included(self):
        document = base.document()
        document['listeners']['other'] = dict(
            document['listeners']['listener'], default_pool_id=None)
        self.assertEqual({LB, LISTENER, POOL}, self.made(
            document, object='pool', action='update', object_id='pool',
            fields={'name': 'x'}))
        self.assertEqual({LB, ('listener', 'other')}, self.made(
            document, object='listener', action='update', object_id='other',
            fields={'default_pool_id': 'pool'}))

    def test_pool_created_for_a_listener_includes_it(self):
        document = base.document()
        document['listeners']['listener']['default_pool_id'] = None
        tree = {'protocol': 'TCP', 'lb_algorithm': 'SOURCE_IP',
                'members': {'m9': base.member('198.18.10.19')}}
        self.assertEqual(
            {LB, LISTENER, ('pool', 'p9'), ('member', 'm9')},
            self.made(document, object='pool', action='create',
                      object_id='p9', listener_id='listener', fields=tree))

    def test_listener_includes_its_new_pool(self):
        tree = {'protocol': 'TCP', 'lb_algorithm': 'SOURCE_IP'}
        self.assertEqual(
            {LB, ('listener', 'new'), ('pool', 'p9')},
            self.made(object='listener', action='create', object_id='new',
                      pools={'p9': tree}, fields={
                          'protocol': 'TCP', 'protocol_port': 81,
                          'default_pool_id': 'p9'}))
