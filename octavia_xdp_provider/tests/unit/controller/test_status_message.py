# SPDX-License-Identifier: Apache-2.0

from octavia_xdp_provider.common import changes
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

    def test_one_status_leaves_the_other_alone(self):
        self.assertEqual(
            {'pools': [{'id': 'p', 'operating_status': 'ERROR'}],
             'listeners': [{'id': 'l', 'provisioning_status': 'ACTIVE'}]},
            status_message.message({('pool', 'p'): 'ERROR'},
                                   {('listener', 'l'): 'ACTIVE'}))

    def test_what_octavia_was_sent_is_not_sent_again(self):
        self.assertEqual(
            {('pool', 'p'): 'ERROR', ('member', 'new'): 'ONLINE'},
            status_message.difference(
                {('pool', 'p'): 'ERROR', ('member', 'm'): 'ONLINE',
                 ('member', 'new'): 'ONLINE'},
                {('pool', 'p'): 'ONLINE', ('member', 'm'): 'ONLINE',
                 ('member', 'gone'): 'ONLINE'}))

    def test_pending_are_all_three_kinds(self):
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

    def test_a_load_balancer_is_created_with_all_that_it_brings(self):
        after = base.document()
        self.assertEqual(
            {LB, LISTENER, POOL, ('member', 'm1'), ('member', 'm2'),
             ('healthmonitor', 'hm')},
            status_message.made_pending(None, after, {
                'object': 'loadbalancer', 'action': 'create',
                'object_id': 'lb'}))

    def test_an_update_of_a_load_balancer_is_about_it_alone(self):
        self.assertEqual({LB}, self.made(
            object='loadbalancer', action='update', object_id='lb',
            fields={'name': 'x'}))

    def test_members_and_monitors_take_pool_and_listeners_with_them(self):
        above = {LB, LISTENER, POOL}
        for kind, key, action, fields in (
                ('member', 'm1', 'update', {'weight': 2}),
                ('member', 'm3', 'create', base.member('198.18.10.13')),
                ('healthmonitor', 'hm', 'update', {'delay': 9})):
            self.assertEqual(above | {(kind, key)}, self.made(
                object=kind, action=action, object_id=key, pool_id='pool',
                fields=fields))

    def test_what_is_deleted_is_not_among_them(self):
        for kind, key in (('member', 'm1'), ('healthmonitor', 'hm')):
            self.assertEqual({LB, LISTENER, POOL}, self.made(
                object=kind, action='delete', object_id=key,
                pool_id='pool'))
        self.assertEqual({LB}, self.made(
            object='listener', action='delete', object_id='listener'))

    def test_listeners_that_used_a_deleted_pool_are(self):
        self.assertEqual({LB, LISTENER}, self.made(
            object='pool', action='delete', object_id='pool'))

    def test_a_batch_is_about_all_its_members(self):
        self.assertEqual(
            {LB, LISTENER, POOL, ('member', 'm2'), ('member', 'm3')},
            self.made(object='member', action='replace', object_id=None,
                      pool_id='pool', members={
                          'm2': base.member('198.18.10.12'),
                          'm3': base.member('198.18.10.13')}))

    def test_another_listener_is_left_alone(self):
        document = base.document()
        document['listeners']['other'] = dict(
            document['listeners']['listener'], default_pool_id=None)
        self.assertEqual({LB, LISTENER, POOL}, self.made(
            document, object='pool', action='update', object_id='pool',
            fields={'name': 'x'}))
        self.assertEqual({LB, ('listener', 'other')}, self.made(
            document, object='listener', action='update', object_id='other',
            fields={'default_pool_id': 'pool'}))

    def test_a_pool_made_for_a_listener_takes_it_with_it(self):
        document = base.document()
        document['listeners']['listener']['default_pool_id'] = None
        tree = {'protocol': 'TCP', 'lb_algorithm': 'SOURCE_IP',
                'members': {'m9': base.member('198.18.10.19')}}
        self.assertEqual(
            {LB, LISTENER, ('pool', 'p9'), ('member', 'm9')},
            self.made(document, object='pool', action='create',
                      object_id='p9', listener_id='listener', fields=tree))

    def test_a_listener_that_brings_a_pool(self):
        tree = {'protocol': 'TCP', 'lb_algorithm': 'SOURCE_IP'}
        self.assertEqual(
            {LB, ('listener', 'new'), ('pool', 'p9')},
            self.made(object='listener', action='create', object_id='new',
                      pools={'p9': tree}, fields={
                          'protocol': 'TCP', 'protocol_port': 81,
                          'default_pool_id': 'p9'}))
