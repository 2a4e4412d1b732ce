# SPDX-License-Identifier: Apache-2.0

import fcntl
import ipaddress
import pathlib
import threading
from unittest import mock

import fixtures
from oslotest import base

from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.agent.bgp import announcer
from octavia_xdp_provider.agent.bgp import speaker
from octavia_xdp_provider.agent.bgp.route import Route
from octavia_xdp_provider.tests.support import speakers

NETWORK = ipaddress.ip_network('203.0.113.0/24')
FIRST, SECOND, OUTSIDE = map(Route.parse, (
    '203.0.113.10', '203.0.113.11', '198.51.100.1'))


class TestAnnouncer(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(
            fixtures.TempDir()).path)
        self.file = self.directory / announcements.FILE_NAME
        self.wanted = announcements.Announcements(
            self.directory, ['0.0.0.0/0', '::/0'])
        self.speaker = speakers.FakeSpeaker()
        self.addCleanup(self.speaker.close)
        self.announcer = announcer.Announcer(
            self.file, [NETWORK], self.speaker)

    def run_once(self):
        """Let the announcer work until its first wait."""
        with mock.patch.object(announcer.Announcer, '_wait',
                               side_effect=speaker.SpeakerClosed):
            self.announcer.run()
        return announcements.Status.decode(
            (self.directory / announcements.STATUS_NAME).read_bytes())

    def verify_now(self):
        self.announcer._verify_at = 0

    def retry_now(self):
        self.announcer._retry_at = 0

    def has(self, *routes):
        self.speaker.held = {route.prefix: route for route in routes}

    def assert_held(self, *routes):
        self.assertEqual({route.prefix: route for route in routes},
                         self.speaker.held)

    def test_only_the_difference_is_commanded(self):
        second = Route.parse('203.0.113.11', '198.18.1.6', med=5)
        self.wanted.set([FIRST, second])
        status = self.run_once()

        self.assert_held(FIRST, second)
        self.assertEqual({FIRST.prefix, SECOND.prefix}, status.announced)
        self.assertEqual({speakers.ROUTER: 'up'}, status.neighbours)
        self.wanted.set([second])
        self.speaker.changes.clear()
        self.assertEqual({SECOND.prefix}, self.run_once().announced)
        self.assertEqual([('withdraw', FIRST)], self.speaker.changes)

    def test_changed_attribute_is_announced_and_not_withdrawn(self):
        self.wanted.set([FIRST])
        self.run_once()
        self.speaker.changes.clear()
        changed = Route.parse('203.0.113.10', communities=('65000:1',))
        self.wanted.set([changed])
        self.run_once()

        self.assertEqual([('announce', changed)], self.speaker.changes)
        self.assert_held(changed)

    def test_routes_of_a_predecessor_are_withdrawn(self):
        self.has(SECOND, OUTSIDE)
        self.wanted.set([FIRST])
        self.run_once()

        self.assert_held(FIRST, OUTSIDE)

    def test_unusable_file_changes_nothing(self):
        self.has(FIRST)
        for content in (None, b'torn', b'{"version": 3}'):
            if content:
                self.file.write_bytes(content)
            status = self.run_once()

            self.assertIsNotNone(status.error)
            self.assertEqual([], self.speaker.changes)
        self.wanted.set([])
        self.assertIsNone(self.run_once().error)
        self.assert_held()

    def test_refused_prefix_is_reported_and_retried(self):
        self.speaker.refused = {FIRST.prefix}
        self.wanted.set([FIRST, SECOND, OUTSIDE])
        status = self.run_once()

        self.assertEqual({SECOND.prefix}, status.announced)
        self.assertEqual({FIRST.prefix, OUTSIDE.prefix}, set(status.failed))
        self.speaker.refused = set()
        self.retry_now()
        self.run_once()
        self.verify_now()
        status = self.run_once()
        self.assertEqual({FIRST.prefix, SECOND.prefix}, status.announced)
        self.assertEqual({OUTSIDE.prefix}, set(status.failed))

    def test_attribute_that_the_speaker_cannot_send_is_reported(self):
        self.speaker.capabilities = frozenset(('med',))
        self.wanted.set([Route.parse('203.0.113.10', med=1,
                                     communities=('65000:1',)), SECOND])
        status = self.run_once()

        self.assertEqual(
            {FIRST.prefix: 'the speaker cannot send communities'},
            status.failed)
        self.assert_held(SECOND)

    def test_family_that_no_neighbour_carries_is_reported(self):
        prefix = ipaddress.ip_network('2001:db8::1')
        self.announcer._routes._networks = [ipaddress.ip_network('::/0')]
        self.wanted.set([Route(prefix)])

        self.assertEqual({prefix: 'nobody takes ipv6 unicast'},
                         self.run_once().failed)
        self.speaker.versions = frozenset((4, 6))
        self.assertEqual({prefix}, self.run_once().announced)

    def test_lost_route_is_announced_again(self):
        self.wanted.set([FIRST])
        self.run_once()
        self.has()

        self.verify_now()
        self.assertIn(FIRST.prefix, self.run_once().failed)
        self.verify_now()
        self.retry_now()
        self.run_once()
        self.verify_now()
        self.assertEqual({FIRST.prefix}, self.run_once().announced)

    def test_silence_is_reported_and_made_up_for(self):
        self.wanted.set([FIRST])
        self.run_once()
        self.speaker.silent = True
        self.wanted.set([])

        self.assertIn('does not answer', self.run_once().error)
        self.speaker.silent = False
        self.retry_now()
        self.assertIsNone(self.run_once().error)
        self.assert_held()

    def test_end_of_a_session_is_reported(self):
        self.wanted.set([])
        self.run_once()
        self.speaker.end_session()
        self.assertEqual({speakers.ROUTER: 'down'},
                         self.run_once().neighbours)

    def test_second_announcer_of_a_file_is_refused(self):
        with open(self.directory / announcements.LOCK_NAME, 'w') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assertRaises(announcements.AnnouncementError,
                              self.announcer.run)

    def test_replaced_directory_ends_the_announcer(self):
        moved = self.directory.with_name(self.directory.name + '-old')
        self.addCleanup(moved.rename, self.directory)
        timer = threading.Timer(0.2, self.directory.rename, [moved])
        self.addCleanup(timer.join)
        timer.start()

        self.assertRaises(announcements.AnnouncementError,
                          self.announcer.run)
