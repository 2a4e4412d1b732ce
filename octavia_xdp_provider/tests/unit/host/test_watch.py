# SPDX-License-Identifier: Apache-2.0
"""The thread that follows taps, when it cannot."""

from unittest import mock

import fixtures

from octavia_xdp_provider.host import watch
from octavia_xdp_provider.tests.unit import base

FAILURE, RECOVERY = 'Taps cannot be followed', 'Taps are followed again'


class TestOutages(base.TestCase):

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        # What each attempt to look does; the last one ends the thread.
        self.outcomes = []
        for name in ('links_module.Links', 'ovsdb.Database',
                     'ovs_poller.Poller'):
            self.useFixture(fixtures.MockPatch(f'{watch.__name__}.{name}'))
        self.useFixture(fixtures.MockPatchObject(watch, 'RETRY_S', 0))
        self.useFixture(fixtures.MockPatchObject(
            watch, '_is_readable', return_value=False))
        self.watch = watch.Watch('unix:x', list, mock.Mock())
        self.addCleanup(self.watch.stop)
        self.useFixture(fixtures.MockPatchObject(self.watch, '_look',
                                                 self.look))

    def look(self, _links, _database):
        outcome = self.outcomes.pop(0)
        if not self.outcomes:
            self.watch._stop.set()
        if outcome:
            raise OSError(outcome)

    def lines(self):
        return [line for line in self.log.output.splitlines()
                if line.startswith((FAILURE, RECOVERY))]

    def test_each_outage_is_logged_when_it_begins_and_ends(self):
        self.outcomes = [None, 'no', 'no', None, None, 'no', 'no', 'no', None]
        self.watch._run()
        self.assertEqual(
            [FAILURE, RECOVERY] * 2,
            [line[:len(FAILURE if line.startswith(FAILURE) else RECOVERY)]
             for line in self.lines()])
