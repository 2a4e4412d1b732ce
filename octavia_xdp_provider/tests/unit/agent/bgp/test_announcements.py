# SPDX-License-Identifier: Apache-2.0

import fcntl
import ipaddress
import json
import os
import pathlib
import threading
from unittest import mock

import fixtures
from oslotest import base

from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.agent.bgp import announcer
from octavia_xdp_provider.agent.bgp import exabgp_api
from octavia_xdp_provider.agent.bgp import exabgp_config

NETWORK = ipaddress.ip_network('203.0.113.0/24')
FIRST = ipaddress.ip_network('203.0.113.10/32')
SECOND = ipaddress.ip_network('203.0.113.11/32')
OUTSIDE = ipaddress.ip_network('198.51.100.1/32')
ROUTER = '198.18.1.5'


class FakeExaBgp(threading.Thread):
    """The other end of the pipes; remembers routes as ExaBGP does."""

    def __init__(self, stale=''):
        super().__init__(daemon=True)
        commands, self.writer = os.pipe()
        self.reader, answers = os.pipe()
        self._commands = os.fdopen(commands)
        self._answers = os.fdopen(answers, 'w', buffering=1)
        self.routes = {}
        self.refused = set()
        self.changes = []
        self.families = ('ipv4 unicast',)
        self.silent = False
        self._answers.write(stale)

    def run(self):
        for line in self._commands:
            if not self.silent:
                self._answers.write(self._answer(line.strip()))
        self._answers.close()

    def event(self, state, kind='state'):
        self._answers.write(json.dumps({'type': kind, 'neighbor': {
            'address': {'peer': ROUTER}, 'state': state}}) + '\n')

    def end(self):
        """Close ExaBGP's side, as if it had died."""
        if self.writer is not None:
            os.close(self.writer)
            self.writer = None
            if self.ident:
                self.join()

    def close(self):
        self.end()
        self._commands.close()
        self._answers.close()
        os.close(self.reader)

    def _answer(self, command):
        if command == 'reset':
            return ''
        if command in ('enable-ack', '#'):
            return 'done\n'
        if command == 'version':
            return 'exabgp 5.0.15\ndone\n'
        if command == 'show neighbor json':
            return json.dumps([{
                'peer': {'address': ROUTER, 'families': dict.fromkeys(
                    self.families, True)}, 'state': 'down',
                'local': {'address': '198.18.1.6', 'families': dict.fromkeys(
                    self.families, True)},
                'fsm': 'ESTABLISHED'}]) + '\ndone\n'
        if command == 'show adj-rib out':
            return ''.join(
                f'{ROUTER} ipv4 unicast {prefix} next-hop {hop}\n'
                for prefix, hop in self.routes.items()) + 'done\n'
        verb, _route, prefix, _next_hop, hop = command.split()
        if prefix in self.refused:
            return 'error\n'
        self.changes.append((verb, prefix))
        if verb == 'announce':
            self.routes[prefix] = hop
        else:
            self.routes.pop(prefix, None)
        return 'done\n'


class TestAnnouncements(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(
            fixtures.TempDir()).path)
        self.file = self.directory / announcements.FILE_NAME
        self.wanted = announcements.Announcements(
            self.directory, ['203.0.113.0/24', '2001:db8::/64'])

    def test_file(self):
        self.assertTrue(self.wanted.set(
            {'203.0.113.11': '198.18.1.6', '2001:db8::1': None,
             '203.0.113.10/32': None}))

        self.assertEqual({'version': 1, 'announcements': [
            {'prefix': '203.0.113.10/32', 'next_hop': 'self'},
            {'prefix': '203.0.113.11/32', 'next_hop': '198.18.1.6'},
            {'prefix': '2001:db8::1/128', 'next_hop': 'self'},
        ]}, json.loads(self.file.read_text()))
        self.assertEqual(
            {FIRST: None, SECOND: ipaddress.ip_address('198.18.1.6'),
             ipaddress.ip_network('2001:db8::1/128'): None},
            self.wanted.wanted())
        self.assertEqual([self.file], list(self.directory.iterdir()))

    def test_unchanged_is_not_written(self):
        self.wanted.set({FIRST: None, SECOND: None})
        before = self.file.stat().st_ino

        self.assertFalse(self.wanted.set({SECOND: None, FIRST: None}))
        self.assertEqual(before, self.file.stat().st_ino)
        self.assertTrue(self.wanted.set({}))

    def test_not_allowed(self):
        self.wanted.set({FIRST: None})
        for wrong in (OUTSIDE, '203.0.113.0/23', '0.0.0.0/0', '::/0',
                      '203.0.113.1/24', 'vip', ''):
            self.assertRaises(announcements.AnnouncementError,
                              self.wanted.set, {wrong: None, SECOND: None})
        self.assertRaises(announcements.AnnouncementError,
                          self.wanted.set, {SECOND: 'router'})
        self.assertEqual({FIRST: None}, self.wanted.wanted())

    def test_no_network_allows_nothing(self):
        nothing = announcements.Announcements(self.directory, [])

        self.assertRaises(announcements.AnnouncementError,
                          nothing.set, {FIRST: None})

    def test_failed_write_leaves_the_old_file(self):
        self.wanted.set({FIRST: None})
        with mock.patch('os.fsync', side_effect=OSError(28, 'full')):
            self.assertRaises(OSError, self.wanted.set, {SECOND: None})

        self.assertEqual({FIRST: None}, self.wanted.wanted())
        self.assertEqual([self.file], list(self.directory.iterdir()))

    def test_unusable_files(self):
        for content in (b'', b'{', b'[]', b'{"version": 2}', b'{}', b'\xff',
                        b'{"version": 1}',
                        b'{"version": 1, "announcements": [{}]}',
                        b'{"version": 1, "announcements": '
                        b'[{"prefix": "x", "next_hop": "self"}]}',
                        b'{"version": 1, "announcements": '
                        b'[{"prefix": "203.0.113.1/32", "next_hop": "x"}]}'):
            self.assertRaises(announcements.AnnouncementError,
                              announcements.decode, content)
            self.file.write_bytes(content)
            self.assertEqual({}, self.wanted.wanted())

    def test_status_needs_a_living_announcer(self):
        status = announcements.Status(
            frozenset([FIRST]), {ROUTER: 'up', '192.0.2.9': 'down'},
            {OUTSIDE: 'outside'}, 'torn')
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


class TestExaBgpApi(base.BaseTestCase):
    def _start(self, stale=''):
        self.fake = FakeExaBgp(stale)
        self.addCleanup(self.fake.close)
        self.fake.start()
        self.states = []
        return exabgp_api.ExaBgp(
            self.fake.reader, self.fake.writer,
            lambda *state: self.states.append(state))

    def test_stale_answers_are_discarded(self):
        for stale in ('', 'done\n', 'error\nexabgp 5.0.15\ndone\n',
                      'done\nexabgp 5.0.15\n' * 20,
                      f'{ROUTER} ipv4 unicast {OUTSIDE} next-hop self\n'):
            exabgp = self._start(stale)
            exabgp.synchronise()

            self.assertEqual(
            {ROUTER: exabgp_api.Neighbour(
                True, 4, frozenset({4}), frozenset({4}))},
            exabgp.neighbours())
            self.assertEqual({}, exabgp.announced())

    def test_changes(self):
        exabgp = self._start()
        self.fake.refused = {str(SECOND)}
        many = [(ipaddress.ip_network(f'203.0.113.{i}/32'), None)
                for i in range(100, 200)]

        self.assertEqual([(SECOND, None)], exabgp.announce(
            [(FIRST, ROUTER), (SECOND, None), *many]))
        self.assertEqual(ROUTER, self.fake.routes[str(FIRST)])
        self.assertEqual(101, len(exabgp.announced()[ROUTER]))
        self.assertEqual([], exabgp.withdraw([(FIRST, ROUTER), *many]))
        self.assertEqual({}, exabgp.announced())

    def test_events_between_answers(self):
        exabgp = self._start()
        self.fake.event('down')
        self.fake.event('whatever', kind='notification')
        self.fake.event('up')

        exabgp.neighbours()
        self.assertEqual([(ROUTER, False, ''), (ROUTER, True, '')],
                         self.states)

    def test_no_answer(self):
        exabgp = self._start()
        self.fake.silent = True

        with mock.patch.object(exabgp_api, 'ANSWER_TIMEOUT', 0.01):
            self.assertRaises(exabgp_api.ConversationError, exabgp.announce,
                              [(FIRST, None)])

    def test_end(self):
        exabgp = self._start()
        self.fake.end()

        self.assertRaises(exabgp_api.Closed, exabgp.pump)


class TestAnnouncer(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(
            fixtures.TempDir()).path)
        self.file = self.directory / announcements.FILE_NAME
        self.wanted = announcements.Announcements(
            self.directory, ['0.0.0.0/0'])
        self.fake = FakeExaBgp()
        self.addCleanup(self.fake.close)
        self.announcer = announcer.Announcer(
            self.file, [NETWORK], self.fake.reader, self.fake.writer)

    def _run(self):
        """Let the announcer work until its first wait."""
        if not self.fake.is_alive():
            self.fake.start()
        with mock.patch.object(announcer.Announcer, '_wait',
                               side_effect=exabgp_api.Closed):
            self.announcer.run()
        return announcements.Status.decode(
            (self.directory / announcements.STATUS_NAME).read_bytes())

    def test_difference(self):
        self.wanted.set({FIRST: None, SECOND: '198.18.1.6'})
        status = self._run()

        self.assertEqual({str(FIRST): 'self', str(SECOND): '198.18.1.6'},
                         self.fake.routes)
        self.assertEqual({FIRST, SECOND}, status.announced)
        self.assertEqual({ROUTER: 'up'}, status.neighbours)
        self.wanted.set({SECOND: '198.18.1.6'})
        self.fake.changes.clear()
        self.assertEqual({SECOND}, self._run().announced)
        self.assertEqual([('withdraw', str(FIRST))], self.fake.changes)

    def test_what_a_predecessor_left_is_withdrawn(self):
        self.fake.routes = {str(SECOND): 'self', str(OUTSIDE): 'self'}
        self.wanted.set({FIRST: None})
        self._run()

        self.assertEqual({str(FIRST): 'self', str(OUTSIDE): 'self'},
                         self.fake.routes)

    def test_unknown_wish_changes_nothing(self):
        self.fake.routes = {str(FIRST): 'self'}
        for content in (None, b'torn'):
            if content:
                self.file.write_bytes(content)
            status = self._run()

            self.assertIsNotNone(status.error)
            self.assertEqual([], self.fake.changes)
        self.wanted.set({})
        self.assertIsNone(self._run().error)
        self.assertEqual({}, self.fake.routes)

    def test_refused_prefix_is_reported_and_retried(self):
        self.fake.refused = {str(FIRST)}
        self.wanted.set({FIRST: None, SECOND: None, OUTSIDE: None})
        status = self._run()

        self.assertEqual({SECOND}, status.announced)
        self.assertEqual({FIRST, OUTSIDE}, set(status.failed))
        self.fake.refused = set()
        self.announcer._retry_at = 0
        self._run()
        self.announcer._verify_at = 0
        status = self._run()
        self.assertEqual({FIRST, SECOND}, status.announced)
        self.assertEqual({OUTSIDE}, set(status.failed))

    def test_lost_route_is_announced_again(self):
        self.wanted.set({FIRST: None})
        self._run()
        self.fake.routes.clear()

        self.announcer._verify_at = 0
        self.assertIn(FIRST, self._run().failed)
        self.announcer._retry_at = self.announcer._verify_at = 0
        self._run()
        self.announcer._verify_at = 0
        self.assertEqual({FIRST}, self._run().announced)

    def test_silence_is_reported(self):
        self.wanted.set({FIRST: None})
        self._run()
        self.fake.silent = True
        self.wanted.set({})

        with mock.patch.object(exabgp_api, 'ANSWER_TIMEOUT', 0.01):
            self.assertIn('does not answer', self._run().error)
        self.fake.silent = False
        self.announcer._retry_at = 0
        self.assertIsNone(self._run().error)
        self.assertEqual({}, self.fake.routes)

    def test_second_announcer(self):
        with open(self.directory / announcements.LOCK_NAME, 'w') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assertRaises(announcements.AnnouncementError,
                              self.announcer.run)

    def test_replaced_directory(self):
        self.fake.start()
        moved = self.directory.with_name(self.directory.name + '-old')
        self.addCleanup(moved.rename, self.directory)
        timer = threading.Timer(0.2, self.directory.rename, [moved])
        self.addCleanup(timer.join)
        timer.start()

        self.assertRaises(announcements.AnnouncementError,
                          self.announcer.run)


class TestExaBgpConfig(base.BaseTestCase):
    NEIGHBOUR = exabgp_config.Neighbour(
        local_address='198.18.1.6', local_as=65010, peer_address=ROUTER,
        peer_as=65000)

    def test_graceful_restart_is_off(self):
        text = exabgp_config.render(
            '198.18.1.6', [self.NEIGHBOUR], ['/bin/announcer', '--file', '/f'])

        self.assertIn('graceful-restart disable;', text)
        self.assertIn('run /bin/announcer --file /f;', text)

    def test_words_that_cannot_be_quoted(self):
        for word in ('/a b', '/a;', '/{a}', ''):
            self.assertRaises(ValueError, exabgp_config.render, '198.18.1.6',
                              [self.NEIGHBOUR], ['/bin/announcer', word])
