# SPDX-License-Identifier: Apache-2.0
"""Patience with members that are moving, from Neutron's announcement to the
documents of nodes."""

from unittest import mock

from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.config import options
from octavia_xdp_provider.controller.neutron_ports import errors
from octavia_xdp_provider.controller.zero_touch import moves
from octavia_xdp_provider.controller.zero_touch import service
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit import clocks
from octavia_xdp_provider.tests.unit.controller import hypervisors


class MovesTestCase(hypervisors.ZeroTouchTestCase):

    PATIENCE = 30

    def setUp(self):
        self.clock = clocks.Clock()
        super().setUp()
        self.seen('lb1', {})
        self.create()
        self.converge()

    def load(self, text=''):
        return super().load(
            f'{text}[zero_touch]\nmigration_patience = {self.PATIENCE}\n')

    def new_worker(self):
        """Return another leader's worker, which uses this test's clock."""
        class Moves(moves.Moves):
            def __init__(it, patience_s):
                super().__init__(patience_s, self.clock)
        worker = super().new_worker()
        begin = worker._begin

        def begun(token):
            with mock.patch.object(service.moves, 'Moves', Moves):
                begin(token)
        worker._begin = begun
        return worker

    def patience(self):
        return {key: member['tunnel'].get('patience')
                for key, member in self.sent().items()}

    def announce(self):
        self.ports[0]['binding:profile'] = {'migrating_to': 'hv2'}
        self.step()
        self.hv2.pass_()

    def move(self):
        self.ports[0].update({'binding:host_id': 'hv2',
                              'binding:profile': {}})
        self.step()

    def later(self, seconds):
        self.clock.now += seconds
        self.worker.step()


class TestPatience(MovesTestCase):

    def test_moving_member_has_patience_until_after_the_move(self):
        self.assertEqual({'m1': None, 'm2': None}, self.patience())
        self.notified.clear()
        self.announce()
        self.assertEqual({'m1': 30, 'm2': None}, self.patience())
        self.assertIn('lb1', self.notified)
        # The announcement may last for any time.
        self.later(3600)
        self.assertEqual({'m1': 30, 'm2': None}, self.patience())
        self.move()
        member = self.sent()['m1']
        self.assertEqual(('198.18.20.2', 30), (
            member['tunnel']['address'], member['tunnel']['patience']))
        self.later(29)
        self.assertEqual({'m1': 30, 'm2': None}, self.patience())
        self.notified.clear()
        self.later(2)
        self.assertEqual({'m1': None, 'm2': None}, self.patience())
        self.assertIn('lb1', self.notified)

    def test_step_without_changes_stores_nothing(self):
        self.announce()
        for _ in range(3):
            generation = self.row().generation
            self.step()
            self.assertEqual(generation, self.row().generation)
            self.clock.now += 5

    def test_patience_ends_after_an_aborted_migration(self):
        self.announce()
        self.ports[0]['binding:profile'] = {}
        self.step()
        self.assertEqual(30, self.patience()['m1'])
        self.later(31)
        self.assertIsNone(self.patience()['m1'])
        self.assertEqual('198.18.20.1',
                         self.sent()['m1']['tunnel']['address'])

    def test_patience_stays_while_neutron_has_no_binding(self):
        self.announce()
        self.ports[0].update({'binding:host_id': 'hv2', 'binding:profile': {},
                              'binding:vif_type': 'unbound'})
        self.worker.step()
        self.later(100)
        self.assertEqual(30, self.patience()['m1'])
        self.ports[0]['binding:vif_type'] = 'ovs'
        self.step()
        self.assertEqual(30, self.patience()['m1'])
        self.later(31)
        self.assertIsNone(self.patience()['m1'])

    def test_new_leader_keeps_the_patience(self):
        self.announce()
        self.worker = self.new_worker()
        self.clock.now = 5.0
        self.step()
        self.later(100)
        self.assertEqual(30, self.patience()['m1'])
        self.move()
        # The next leader does not know when the binding moved.
        self.clock.now = 90000.0
        self.worker = self.new_worker()
        self.step()
        self.assertEqual(30, self.patience()['m1'])
        self.later(29)
        self.assertEqual(30, self.patience()['m1'])
        self.later(2)
        self.assertIsNone(self.patience()['m1'])

    def test_patience_stays_while_neutron_is_unavailable(self):
        self.announce()
        self.worker = self.new_worker()
        with mock.patch.object(self.neutron, 'ports',
                               side_effect=errors.NeutronUnavailable('no')):
            self.step()
            self.later(100)
            self.assertEqual(30, self.patience()['m1'])
        self.step()
        self.assertEqual(30, self.patience()['m1'])

    def test_change_of_the_load_balancer_keeps_the_patience(self):
        self.announce()
        self.store.load_balancers.change('lb', lambda document: dict(
            document, name='x'))
        self.step()
        self.assertEqual(30, self.patience()['m1'])

    def test_patience_waits_for_a_pending_change(self):
        with mock.patch.object(self.store.load_balancers, 'change',
                               return_value=None):
            self.announce()
        self.assertIsNone(self.patience()['m1'])
        self.worker.step()
        self.assertEqual(30, self.patience()['m1'])

    def test_patience_ends_with_the_member(self):
        self.announce()

        def without(document):
            del document['pools']['pool']['members']['m1']
            return document
        self.store.load_balancers.change('lb', without)
        self.step()
        self.assertEqual({'m2': None}, self.patience())
        self.later(1000)
        self.assertEqual({'m2': None}, self.patience())


class TestOff(MovesTestCase):

    PATIENCE = 0

    def test_zero_patience_is_not_sent(self):
        self.announce()
        self.assertEqual({'m1': None, 'm2': None}, self.patience())
        self.move()
        self.assertEqual({'m1': None, 'm2': None}, self.patience())
        self.assertEqual('198.18.20.2',
                         self.sent()['m1']['tunnel']['address'])

    def test_patience_of_an_earlier_leader_is_removed(self):
        def patient(document):
            document['pools']['pool']['members']['m1']['tunnel'][
                'patience'] = 30
            return document
        self.store.load_balancers.change('lb', patient)
        self.worker = self.new_worker()
        self.step()
        self.assertIsNone(self.patience()['m1'])


class TestOption(base.TestCase):

    def test_patience_out_of_bounds_is_refused(self):
        for value in ('-1', '3601', '1.5', 'x'):
            error = self.assertRaises(
                option_values.ConfigurationError, self.load,
                f'[zero_touch]\nmigration_patience = {value}\n')
            self.assertIn('migration_patience', str(error))
        self.assertEqual(
            30, options.load(config_files=[]).zero_touch.migration_patience)
