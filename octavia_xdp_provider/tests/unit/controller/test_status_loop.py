# SPDX-License-Identifier: Apache-2.0
"""The status loop against a store on disk and an Octavia in memory."""

from unittest import mock

from octavia_xdp_provider.common import changes
from octavia_xdp_provider.common import spec
from octavia_xdp_provider.controller import node_api
from octavia_xdp_provider.controller import status_loop
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import base as store_base

UP = {'lb': {'m1': 'up', 'm2': 'up'}}


class TestStatusLoop(store_base.StoreTestCase):

    def setUp(self):
        super().setUp()
        self.now = 1_000_000.0
        for target in ('time.time', 'time.monotonic'):
            patch = mock.patch(target, side_effect=lambda: self.now)
            patch.start()
            self.addCleanup(patch.stop)
        self.octavia = store_base.FakeOctavia()
        self.restart()
        self.store.create(base.document())
        self.store.place('lb', ['a', 'b'])
        self.commit()

    def restart(self):
        """A new process: nothing is left but the database."""
        self.health = node_api.Health()
        self.loop = status_loop.StatusLoop(self.conf, self.store, self.health,
                                    self.octavia)

    def commit(self):
        """Octavia ends its transaction."""
        self.octavia.documents['lb'] = self.store.load_balancer(
            'lb').document

    def report(self, *hosts, error=None, members=UP):
        for host in hosts:
            self.store.seen(host, {})
            answer = self.store.fetch(host, {})
            self.store.report(host, answer['as_of'], {
                key: {'generation': generation, 'error': error}
                for key, generation in answer['generations'].items()})
            self.health.update(host, members)

    def provisioning(self, key='lb'):
        return self.octavia.provisioning(key)

    def change(self, member_id='m1', action='delete', **more):
        return self.store.change('lb', lambda document: changes.apply(
            document, dict(more, object='member', action=action,
                           object_id=member_id, pool_id='pool')))

    def test_active_when_all_nodes_have_confirmed(self):
        self.report('a')
        self.store.seen('b', {})
        self.assertTrue(self.loop.step())
        self.assertIsNone(self.provisioning())
        self.report('b')
        self.assertFalse(self.loop.step())
        for key in ('lb', 'listener', 'pool', 'm1', 'm2', 'hm'):
            self.assertEqual('ACTIVE', self.provisioning(key))
            self.assertEqual('ONLINE', self.octavia.operating(key))

    def test_octavias_transaction_is_waited_for_first(self):
        self.report('a', 'b')
        self.loop.step()
        first, second = self.octavia.messages
        self.assertEqual({'loadbalancers': [
            {'id': 'lb', 'operating_status': 'ONLINE'}]}, first)
        self.assertEqual('ACTIVE', second['loadbalancers'][0][
            'provisioning_status'])

    def test_a_restart_amid_a_change_takes_nothing_offline(self):
        self.report('a', 'b')
        self.loop.step()
        self.change('m3', 'create', fields=base.member('198.18.10.13'))
        self.commit()
        self.restart()
        before = len(self.octavia.messages)
        self.report('a', 'b')
        self.loop.step()
        sent = [entry['operating_status']
                for message in self.octavia.messages[before:]
                for entry in message['loadbalancers']]
        self.assertEqual(2, len(sent))
        self.assertNotIn('OFFLINE', sent)
        self.assertEqual('ACTIVE', self.provisioning())

    def test_not_before_octavia_has_committed(self):
        del self.octavia.documents['lb']
        self.report('a', 'b')
        self.assertTrue(self.loop.step())
        self.assertIsNone(self.provisioning())
        self.commit()
        self.loop.step()
        self.assertEqual('ACTIVE', self.provisioning())

    def test_new_member_waits_for_its_row(self):
        self.report('a', 'b')
        self.loop.step()
        self.change('m3', 'create', fields=base.member('198.18.10.13'))
        self.report('a', 'b')
        self.assertTrue(self.loop.step())
        self.assertIsNone(self.provisioning('m3'))
        self.commit()
        self.loop.step()
        self.assertEqual('ACTIVE', self.provisioning('m3'))

    def test_dead_node_is_not_waited_for(self):
        self.report('b')
        self.now += self.conf.placement.node_timeout + 1
        self.report('a')
        self.loop.step()
        self.assertEqual('ACTIVE', self.provisioning())

    def test_error_in_bounded_time_and_active_later(self):
        self.now += self.conf.controller.status_timeout + 1
        self.assertTrue(self.loop.step())
        self.assertEqual('ERROR', self.provisioning())
        sent = len(self.octavia.messages)
        self.loop.step()
        self.assertEqual(sent, len(self.octavia.messages), 'sent again')
        self.report('a', 'b')
        self.loop.step()
        self.assertEqual('ACTIVE', self.provisioning())

    def test_a_node_that_lags_is_waited_for_only_so_long(self):
        self.report('a')
        self.now += self.conf.controller.status_timeout + 1
        self.store.seen('b', {})
        self.report('a')
        self.loop.step()
        self.assertEqual('ACTIVE', self.provisioning())

    def test_a_failing_node_degrades_the_load_balancer(self):
        self.report('a')
        self.report('b', error='map full')
        self.loop.step()
        self.assertEqual('ACTIVE', self.provisioning())
        self.assertEqual('DEGRADED', self.octavia.operating('lb'))

    def test_all_nodes_failing_is_an_error(self):
        self.report('a', 'b', error='map full')
        self.loop.step()
        self.assertIsNone(self.provisioning())
        self.now += self.conf.controller.status_timeout + 1
        self.report('a', 'b', error='map full')
        self.loop.step()
        self.assertEqual('ERROR', self.provisioning())

    def test_removed_member_is_sent_as_deleted(self):
        self.report('a', 'b')
        self.loop.step()
        self.change()
        self.commit()
        self.report('a', 'b')
        self.loop.step()
        self.assertEqual('DELETED', self.provisioning('m1'))
        self.assertEqual((), self.store.load_balancer('lb').removed)

    def test_a_loop_that_was_killed_before_sending_sends_later(self):
        self.report('a', 'b')
        self.restart()
        self.report('a', 'b')
        self.loop.step()
        self.assertEqual('ACTIVE', self.provisioning())

    def test_a_new_controller_does_not_take_members_down(self):
        self.report('a', 'b')
        self.loop.step()
        self.restart()
        sent = len(self.octavia.messages)
        self.assertTrue(self.loop.step())
        self.assertEqual(sent, len(self.octavia.messages))
        self.report('b')
        self.loop.step()
        self.assertEqual('ONLINE', self.octavia.operating('m1'))
        self.assertNotIn('OFFLINE', str(self.octavia.messages[sent:]))

    def test_statuses_are_sent_when_octavia_is_back(self):
        self.report('a', 'b')
        self.octavia.available = False
        self.assertTrue(self.loop.step())
        self.octavia.available = True
        self.loop.step()
        self.assertEqual('ACTIVE', self.provisioning())

    def test_rolled_back_create_is_undone(self):
        del self.octavia.documents['lb']
        self.now += self.conf.controller.confirm_timeout + 1
        self.report('a', 'b')
        self.loop.step()
        self.assertTrue(self.store.load_balancer('lb').deleted)
        self.report('a', 'b')
        self.loop.step()
        self.assertEqual([], self.store.load_balancers())
        self.assertEqual([], self.store.placements())

    def test_rolled_back_update_is_undone(self):
        self.report('a', 'b')
        self.loop.step()
        self.change('m1', 'update', fields={'weight': 9})
        self.report('a', 'b')
        self.loop.step()
        self.now += self.conf.controller.confirm_timeout + 1
        self.report('a', 'b')
        self.loop.step()
        member = self.store.load_balancer('lb').document['pools']['pool'][
            'members']['m1']
        self.assertEqual(1, member['weight'])

    def test_what_cannot_be_taken_over_stops_nobody(self):
        """Neither for a rule of its own nor for one beside others."""
        dscp = {'encapsulation': 'dscp', 'dscp': 5}
        self.store.create(spec.document('other', base.tree(
            vip_address='203.0.113.11', flavor=dscp, listeners={},
            pools={'other-pool': {'members': {
                'm9': base.member('198.18.10.99')}}})))
        for address in ('198.18.10.99', '2001:db8::1'):
            self.report('a', 'b')
            self.loop.step()
            theirs = base.document(flavor=dscp)
            theirs['pools']['pool']['members']['m1']['address'] = address
            self.octavia.documents['lb'] = theirs
            before = self.store.load_balancer('lb')
            self.now += self.conf.controller.confirm_timeout + 1
            self.report('a', 'b')
            self.loop.step()
            self.assertEqual(before, self.store.load_balancer('lb'))
        # What can be done is taken over.
        theirs['pools']['pool']['members']['m1']['address'] = '198.18.10.98'
        self.now += self.conf.controller.resync_interval + 1
        self.report('a', 'b')
        self.loop.step()
        self.assertEqual(theirs, self.store.load_balancer('lb').document)

    def test_change_of_health_is_sent_once(self):
        self.report('a', 'b')
        self.loop.step()
        self.report('a', 'b', members={'lb': {'m1': 'down', 'm2': 'up'}})
        sent = len(self.octavia.messages)
        self.loop.step()
        self.loop.step()
        self.assertEqual('ERROR', self.octavia.operating('m1'))
        self.assertEqual('DEGRADED', self.octavia.operating('lb'))
        self.assertEqual(sent + 1, len(self.octavia.messages))
        self.assertEqual(
            {'id': 'm1', 'operating_status': 'ERROR'},
            self.octavia.messages[-1]['members'][0])

    def test_deleted_is_sent_when_no_node_holds_it(self):
        self.report('a', 'b')
        self.loop.step()
        self.store.delete('lb')
        self.store.seen('a', {})
        self.assertTrue(self.loop.step())
        self.assertEqual('ACTIVE', self.provisioning())
        self.report('a', 'b')
        self.assertTrue(self.loop.step())
        for key in ('lb', 'listener', 'pool', 'm1', 'm2', 'hm'):
            self.assertEqual('DELETED', self.provisioning(key))
        self.assertFalse(self.loop.step())
        self.assertEqual([], self.store.load_balancers())

    def test_deletion_does_not_wait_for_the_dead(self):
        self.store.delete('lb')
        self.now += self.conf.placement.node_timeout + 1
        self.loop.step()
        self.assertEqual('DELETED', self.provisioning())

    def test_deletion_that_no_node_does_ends_in_error(self):
        self.report('a', 'b')
        self.store.delete('lb')
        self.now += self.conf.controller.status_timeout + 1
        self.store.seen('a', {})
        self.loop.step()
        self.assertEqual('ERROR', self.provisioning())
        self.report('a', 'b')
        self.loop.step()
        self.assertEqual('DELETED', self.provisioning())
