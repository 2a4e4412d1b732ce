# SPDX-License-Identifier: Apache-2.0

import fcntl
import json
import pathlib
from unittest import mock

import fixtures
from oslotest import base

from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.agent.bgp.route import Route

FIRST, SECOND, OUTSIDE = map(Route.parse, (
    '203.0.113.10', '203.0.113.11', '198.51.100.1'))
ROUTER = '198.18.1.5'
# Written by an agent from before version 2, byte by byte.
PLAIN_FILE = b'''{
 "version": 1,
 "announcements": [
  {
   "prefix": "203.0.113.10/32",
   "next_hop": "self"
  },
  {
   "prefix": "203.0.113.11/32",
   "next_hop": "198.18.1.6"
  },
  {
   "prefix": "2001:db8::1/128",
   "next_hop": "self"
  }
 ]
}
'''


class Announcing(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(
            fixtures.TempDir()).path)
        self.file = self.directory / announcements.FILE_NAME
        self.wanted = announcements.Announcements(
            self.directory, ['203.0.113.0/24', '2001:db8::/64'])

    def assert_wanted(self, *routes):
        self.assertEqual({route.prefix: route for route in routes},
                         self.wanted.wanted())


class TestFile(Announcing):

    def test_routes_are_written_in_their_order(self):
        routes = [Route.parse('203.0.113.11', '198.18.1.6'),
                  Route.parse('2001:db8::1'), FIRST]
        self.assertTrue(self.wanted.set(routes))

        self.assertEqual(PLAIN_FILE, self.file.read_bytes())
        self.assert_wanted(*routes)
        self.assertEqual([self.file], list(self.directory.iterdir()))

    def test_attributes_are_written_and_come_back(self):
        route = Route.parse('203.0.113.10', '198.18.1.6',
                            ('65000:2', '65000:1'), ('65000:1:2',), 10, 200,
                            2)
        self.wanted.set([SECOND, route])

        self.assertEqual({'version': 1, 'announcements': [
            {'prefix': '203.0.113.10/32', 'next_hop': '198.18.1.6',
             'communities': ['65000:1', '65000:2'],
             'large_communities': ['65000:1:2'], 'med': 10,
             'local_preference': 200, 'as_path_prepend': 2},
            {'prefix': '203.0.113.11/32', 'next_hop': 'self'},
        ]}, json.loads(self.file.read_text()))
        self.assert_wanted(route, SECOND)

    def test_fields_of_version_1_are_those_above(self):
        # An announcer of version 1 refuses a file with any other: a new field
        # needs the next version.
        self.assertEqual(1, announcements.VERSION)
        self.assertEqual(
            {'prefix', 'next_hop', 'communities', 'large_communities', 'med',
             'local_preference', 'as_path_prepend'}, announcements._FIELDS)

    def test_unchanged_routes_are_not_written(self):
        self.wanted.set([FIRST, SECOND])
        before = self.file.stat().st_ino

        self.assertFalse(self.wanted.set([SECOND, FIRST]))
        self.assertEqual(before, self.file.stat().st_ino)
        self.assertTrue(self.wanted.set([]))

    def test_prefix_outside_the_networks_changes_nothing(self):
        self.wanted.set([FIRST])
        for wrong in ('198.51.100.1', '203.0.112.0/23', '0.0.0.0/0', '::/0'):
            self.assertRaises(announcements.AnnouncementError,
                              self.wanted.set, [Route.parse(wrong), SECOND])
        self.assert_wanted(FIRST)

    def test_prefix_that_is_none_is_not_allowed(self):
        for wrong in ('203.0.113.1/24', 'vip', ''):
            self.assertRaises(announcements.AnnouncementError,
                              self.wanted.check, wrong)

    def test_prefix_with_two_routes_changes_nothing(self):
        self.wanted.set([FIRST])
        self.assertRaises(
            announcements.AnnouncementError, self.wanted.set,
            [SECOND, Route.parse('203.0.113.11', '198.18.1.6')])
        self.assert_wanted(FIRST)

    def test_empty_list_of_networks_allows_nothing(self):
        nothing = announcements.Announcements(self.directory, [])

        self.assertRaises(announcements.AnnouncementError, nothing.set,
                          [FIRST])

    def test_failed_write_leaves_the_old_file(self):
        self.wanted.set([FIRST])
        with mock.patch('os.fsync', side_effect=OSError(28, 'full')):
            self.assertRaises(OSError, self.wanted.set, [SECOND])

        self.assert_wanted(FIRST)
        self.assertEqual([self.file], list(self.directory.iterdir()))


class TestUnusableFile(Announcing):

    def entry(self, version=1, **fields):
        return json.dumps({'version': version, 'announcements': [
            {'prefix': '203.0.113.1/32', 'next_hop': 'self', **fields}
            ]}).encode()

    def test_malformed_files_are_refused(self):
        for content in (b'', b'{', b'[]', b'{"version": 2}', b'{}', b'\xff',
                        b'{"version": 1}',
                        b'{"version": 1, "announcements": [{}]}',
                        b'{"version": 1, "announcements": [7]}',
                        self.entry(prefix='x'), self.entry(next_hop='x'),
                        self.entry(next_hop='2001:db8::1'),
                        self.entry(med='5'),
                        self.entry(communities='65000:1'),
                        self.entry(color=7), self.entry(2)):
            self.assertRaises(announcements.AnnouncementError,
                              announcements.decode, content)
            self.file.write_bytes(content)
            self.assertEqual({}, self.wanted.wanted())

    def test_error_names_the_field(self):
        for content, text in ((self.entry(med=-1), 'med: -1'),
                              (self.entry(color=7), 'version 1: color'),
                              # The next version may have any fields.
                              (self.entry(2), 'version 2')):
            error = self.assertRaises(announcements.AnnouncementError,
                                      announcements.decode, content)
            self.assertIn(text, str(error))

    def test_announced_prefixes_count_as_wanted(self):
        """The first pass after an upgrade must withdraw nothing."""
        self.file.write_bytes(self.entry(2))
        (self.directory / announcements.STATUS_NAME).write_bytes(
            announcements.Status(frozenset([FIRST.prefix])).encode())
        with open(self.directory / announcements.LOCK_NAME, 'w') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assert_wanted(FIRST)
            self.assertTrue(self.wanted.set([FIRST]))
        self.assert_wanted(FIRST)

    def test_unknown_version_is_logged_once(self):
        log = self.useFixture(fixtures.FakeLogger())
        self.file.write_bytes(self.entry(2))
        for _ in range(3):
            self.wanted.wanted()
        self.assertEqual(1, log.output.count('version 2 is unknown'))


class TestStatus(Announcing):

    def test_status_needs_a_living_announcer(self):
        status = announcements.Status(
            frozenset([FIRST.prefix]), {ROUTER: 'up', '192.0.2.9': 'down'},
            {OUTSIDE.prefix: 'outside'}, 'torn')
        self.assertIsNone(self.wanted.status())
        (self.directory / announcements.STATUS_NAME).write_bytes(
            status.encode())
        lock_path = self.directory / announcements.LOCK_NAME

        with open(lock_path, 'w') as lock:
            self.assertIsNone(self.wanted.status())
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assertEqual(status, self.wanted.status())
            self.assertEqual(1, self.wanted.status().sessions_up)
        self.assertIsNone(self.wanted.status())
