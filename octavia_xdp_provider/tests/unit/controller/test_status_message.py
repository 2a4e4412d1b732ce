# SPDX-License-Identifier: Apache-2.0

import copy

from octavia_xdp_provider.contracts import changes
from octavia_xdp_provider.contracts import spec
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

    def test_change_includes_its_object_and_those_above(self):
        above = {LB, LISTENER, POOL}
        of_pool = {'pool_id': 'pool'}
        for change, expected in (
                (('loadbalancer', 'update', 'lb', {'name': 'x'}), {LB}),
                (('pool', 'update', 'pool', {'name': 'x'}), above),
                (('pool', 'delete', 'pool'), {LB, LISTENER}),
                (('listener', 'delete', 'listener'), {LB}),
                (('listener', 'update', 'other',
                  {'default_pool_id': 'pool'}), {LB, ('listener', 'other')}),
                (('member', 'update', 'm1', {'weight': 2}, of_pool),
                 above | {('member', 'm1')}),
                (('member', 'create', 'm3', base.member('198.18.10.13'),
                  of_pool), above | {('member', 'm3')}),
                (('healthmonitor', 'update', 'hm', {'delay': 9}, of_pool),
                 above | {('healthmonitor', 'hm')}),
                # Deleted objects are not included.
                (('member', 'delete', 'm1', {}, of_pool), above),
                (('healthmonitor', 'delete', 'hm', {}, of_pool), above),
                (('member', 'replace', None, {}, {**of_pool, 'members': {
                    'm2': base.member('198.18.10.12'),
                    'm3': base.member('198.18.10.13')}}),
                 above | {('member', 'm2'), ('member', 'm3')})):
            kind, action, key, fields, more = (*change, {}, {})[:5]
            with self.subTest(f'{action} {kind} {key}'):
                document = base.document()
                document['listeners']['other'] = dict(
                    document['listeners']['listener'], default_pool_id=None)
                self.assertEqual(expected, self.made(
                    document, object=kind, action=action, object_id=key,
                    **({'fields': fields} if fields else {}), **more))

    def test_change_of_layer_7_includes_what_octavia_locks(self):
        """The listener; for rules also the policy."""
        before = base.document()
        before['listeners']['listener'].update(
            protocol='HTTP', l7policies={'policy': spec.with_defaults(
                'l7policy', {'action': 'REJECT', 'position': 1, 'rules': {
                    'rule': {'admin_state_up': True}}})})
        before['listeners']['other'] = dict(
            before['listeners']['listener'], l7policies={})
        without_rule = copy.deepcopy(before)
        without_policy = copy.deepcopy(before)
        del without_policy['listeners']['listener']['l7policies']
        without_rule['listeners']['listener']['l7policies']['policy'][
            'rules'] = {}
        policy, rule = ('l7policy', 'policy'), ('l7rule', 'rule')
        for kind, action, first, after, expected in (
                ('l7policy', 'create', without_policy, before,
                 {policy, rule}),
                ('l7policy', 'update', before, before, {policy}),
                ('l7policy', 'delete', before, without_policy, set()),
                ('l7rule', 'create', without_rule, before, {policy, rule}),
                ('l7rule', 'update', before, before, {policy, rule}),
                ('l7rule', 'delete', before, without_rule, {policy})):
            self.assertEqual(
                {LB, LISTENER} | expected, status_message.made_pending(
                    first, after, {'object': kind, 'action': action,
                                   'object_id': {'l7policy': 'policy',
                                                 'l7rule': 'rule'}[kind]}),
                (kind, action))

    def test_pool_includes_listeners_with_a_policy_for_it(self):
        """If the policy is enabled and has a rule, whatever its state."""
        for policy, expected in (
                ({'rules': {'r': {'admin_state_up': False}}}, True),
                ({'rules': {}}, False),
                ({'admin_state_up': False, 'rules': {
                    'r': {'admin_state_up': True}}}, False)):
            before = base.document()
            before['listeners']['other'] = dict(
                before['listeners']['listener'], default_pool_id=None,
                l7policies={'policy': {
                    'admin_state_up': True, 'redirect_pool_id': 'pool',
                    **policy}})
            made = status_message.made_pending(before, before, {
                'object': 'member', 'action': 'update', 'object_id': 'm1',
                'pool_id': 'pool'})
            self.assertEqual(expected, ('listener', 'other') in made)
            self.assertIn(LISTENER, made)

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
