# SPDX-License-Identifier: Apache-2.0

import fixtures
from oslo_upgradecheck import upgradecheck

from octavia_xdp_provider.cmd import status
from octavia_xdp_provider.tests.unit.controller import base


class TestChecks(base.StoreTestCase):

    def codes(self, text=''):
        conf = self.load(f'[database]\nconnection = {self.url}\n{text}')
        checks = status.Checks(conf)
        return [check(checks).code for _, check in checks._upgrade_checks]

    def setUp(self):
        super().setUp()
        self.url = self.conf.database.connection

    def test_configured_host_is_ready(self):
        self.assertEqual([upgradecheck.Code.SUCCESS] * 2, self.codes(
            '[vip]\nallowed_networks = 203.0.113.0/24\n'
            'network_ids = 8f0e0d3c-64a1-4b6e-9a55-0d9a4a1e7c11\n'
            '[members]\nallowed_networks = 10.0.0.0/8\n'))

    READY = ('[vip]\nallowed_networks = 203.0.113.0/24\n'
             'network_ids = 8f0e0d3c-64a1-4b6e-9a55-0d9a4a1e7c11\n')

    def test_vms_have_networks_of_their_own(self):
        for options, code in (
                ('[members]\nallowed_networks = 10.0.0.0/8\n'
                 '[zero_touch]\nmode = preferred\n',
                 upgradecheck.Code.WARNING),
                ('[members]\nallowed_networks = 10.0.0.0/8\n'
                 '[zero_touch]\nhost_networks = 198.51.100.0/24\n',
                 upgradecheck.Code.WARNING),
                ('[zero_touch]\nmode = required\n'
                 'member_networks = 10.0.0.0/8\n',
                 upgradecheck.Code.SUCCESS)):
            with self.subTest(options):
                self.assertEqual(code, self.codes(self.READY + options)[0])

    def test_missing_networks_are_a_warning(self):
        for text in (
                '', '[vip]\nallowed_networks = 203.0.113.0/24\n',
                '[vip]\nallowed_networks = 203.0.113.0/24\n'
                'any_network = true\n'
                '[members]\nallowed_networks = 10.0.0.0/8\n'):
            self.assertEqual(upgradecheck.Code.WARNING, self.codes(text)[0])

    def test_database_that_was_not_upgraded_is_a_failure(self):
        for self.url in ('sqlite://', 'sqlite:////nowhere/at/all.sqlite'):
            self.assertEqual(upgradecheck.Code.FAILURE, self.codes()[1])

    def test_snapshot_isolation_is_a_warning(self):
        for is_on, code in ((True, upgradecheck.Code.WARNING),
                            (False, upgradecheck.Code.SUCCESS)):
            self.useFixture(fixtures.MonkeyPatch(
                'octavia_xdp_provider.controller.store.schema.'
                'has_snapshot_isolation', lambda manager, is_on=is_on: is_on))
            self.assertEqual(code, self.codes()[1])
