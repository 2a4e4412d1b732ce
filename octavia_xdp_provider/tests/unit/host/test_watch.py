# SPDX-License-Identifier: Apache-2.0
"""The thread that follows taps: when it cannot, and what it tells."""

from unittest import mock

import fixtures

from octavia_xdp_provider.host import links
from octavia_xdp_provider.host import watch
from octavia_xdp_provider.tests.unit import base

FAILURE, RECOVERY = 'Taps cannot be followed', 'Taps are followed again'


class TestOutages(base.TestCase):

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        # The outcome of each attempt to look; the last one ends the thread.
        self.outcomes = []
        for name in ('links_module.Links', 'ovsdb.Database',
                     'ovs_poller.Poller'):
            self.useFixture(fixtures.MockPatch(f'{watch.__name__}.{name}'))
        self.useFixture(fixtures.MockPatchObject(watch, 'RETRY_S', 0))
        self.useFixture(fixtures.MockPatchObject(
            watch, '_is_readable', return_value=False))
        self.watch = watch.Watch('unix:x', (), list, mock.Mock())
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


class TestLooks(base.TestCase):

    def setUp(self):
        super().setUp()
        self.changed = mock.Mock()
        self.watch = watch.Watch('unix:x', ['bond0'], lambda: ['port'],
                                 self.changed)
        self.addCleanup(self.watch.stop)
        self.links = mock.Mock()
        self.database = mock.Mock(is_known=False)

    def look(self, **mtus):
        """Whether somebody is told of interfaces with these MTUs."""
        self.changed.reset_mock()
        self.links.links.return_value = {
            name: links.Link(index, name, mtu)
            for index, (name, mtu) in enumerate(sorted(mtus.items()), 2)}
        self.watch._look(self.links, self.database)
        return self.changed.called

    def test_another_mtu_of_an_own_interface_is_told_at_once(self):
        self.assertTrue(self.look(bond0=1500, other=1500))
        self.assertFalse(self.look(bond0=1500, other=1500))
        self.assertFalse(self.look(bond0=1500, other=1400))
        self.assertTrue(self.look(bond0=1400, other=1400))
        self.assertTrue(self.look(other=1400))
        self.assertFalse(self.look(other=1400))
        self.assertTrue(self.look(bond0=1400, other=1400))

    def test_recent_loss_of_open_vswitch_is_reported(self):
        self.database.is_known = True
        self.database.interfaces.return_value = []
        self.assertTrue(self.look(bond0=1500))
        taps = self.watch.taps
        self.database.is_known = False
        self.assertFalse(self.look(bond0=1500))
        self.assertTrue(self.look(bond0=1400))
        self.assertIs(taps, self.watch.taps)
        self.assertTrue(self.watch.is_known)
