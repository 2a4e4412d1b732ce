# SPDX-License-Identifier: Apache-2.0
"""A pass that cannot do all that is wanted."""

import copy
import ipaddress

import fixtures

from octavia_xdp_provider.agent import reconcile
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.agent import reconciling

KEY = reconciling.KEY
PREFIX = reconciling.PREFIX
NETWORK = reconciling.NETWORK
BOTH = reconciling.BOTH


class TestFailures(reconciling.ReconcilerTestCase):

    def test_vip_that_cannot_be_withdrawn_keeps_its_services(self):
        self.unmonitored()
        self.run_pass(self.document)
        with self.full():
            self.run_pass()
            self.assertEqual([], self.events)
        self.assertIn(KEY, self.datapath.held)
        self.run_pass()
        self.assertEqual([('announce', ()), ('delete', KEY)], self.events)

    def test_services_are_set_where_no_file_can_be_written(self):
        log = self.useFixture(fixtures.FakeLogger())
        self.unmonitored()
        with self.full():
            outcomes = [self.run_pass(self.document) for _ in range(3)]
        self.assertIn(KEY, self.datapath.held)
        for outcome in outcomes:
            self.assertIn('cannot be written: No space left on device',
                          outcome.failed.get(self.document['id']))
        # One line for each file, however often it is tried.
        self.assertEqual(2, log.output.count('No space left on device'))

    def test_files_are_written_as_soon_as_they_can_be(self):
        self.unmonitored()
        with self.full():
            self.run_pass(self.document)
            self.reconciler.announce(BOTH)
            self.assertEqual({'announcements', 'checks'},
                             self.reconciler.file_errors.keys())
        outcome = self.run_pass(self.document)
        self.assertIsNone(outcome.failed.get(self.document['id']))
        self.assertEqual({}, self.reconciler.file_errors)
        self.assertEqual({PREFIX}, self.announced())

    def test_refused_load_balancer_does_not_stop_the_others(self):
        self.unmonitored()
        bad = dict(base.document(), id='bad', vip_address='192.0.2.1')
        outcome = self.run_pass(bad, self.document)
        self.assertIn('vip_address', outcome.failed.get('bad'))
        self.assertIsNone(outcome.failed.get('lb'))
        self.assertEqual({PREFIX}, self.announced())

    def test_refused_change_keeps_what_is_there(self):
        self.unmonitored()
        self.run_pass(self.document)
        self.policy = address_policy.AddressPolicy(
            (NETWORK,), (ipaddress.ip_network('198.18.0.0/15'),),
            frozenset())
        outcome = self.run_pass(self.document)
        self.assertIn('address', outcome.failed.get('lb'))
        self.assertIn(KEY, self.datapath.held)
        self.assertEqual({PREFIX}, self.announced())

    def test_document_of_a_newer_version_changes_nothing(self):
        self.unmonitored()
        self.run_pass(self.document)
        newer = copy.deepcopy(self.document)
        newer.update(version=spec.VERSION + 1, shiny_new=['203.0.113.12'])
        newer['admin_state_up'] = False
        outcome = self.run_pass(newer)
        for word in ('version', f'newer than {spec.VERSION}', 'shiny_new',
                     'upgrade'):
            self.assertIn(word, outcome.failed.get('lb'))
        self.assertIn(KEY, self.datapath.held)
        self.assertEqual({PREFIX}, self.announced())
        self.assertEqual([], self.events)

    def test_document_that_names_no_vip_removes_nothing(self):
        log = self.useFixture(fixtures.FakeLogger())
        self.unmonitored()
        self.run_pass(self.document)
        for bad in ({}, [], None, {'version': 1, 'vip_address': 5}):
            outcome = self.reconciler.reconcile(
                reconcile.Wanted(8, {'lb': (6, bad)}), BOTH)
            self.assertTrue(outcome.failed.get('lb'), bad)
            self.assertIn(KEY, self.datapath.held)
            self.assertEqual({PREFIX}, self.announced())
        # Said once, however long it lasts, and once again after an end.
        text = 'The document of load balancer lb names no address'
        self.assertEqual(1, log.output.count(text))
        self.run_pass(self.document)
        self.reconciler.reconcile(reconcile.Wanted(8, {'lb': (6, {})}), BOTH)
        self.assertEqual(2, log.output.count(text))

    def test_full_datapath_is_reported(self):
        self.datapath.full = True
        outcome = self.run_pass(self.document)
        self.assertIn('no room', outcome.failed.get('lb'))
