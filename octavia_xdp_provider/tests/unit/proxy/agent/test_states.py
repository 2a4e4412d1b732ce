# SPDX-License-Identifier: Apache-2.0

import fcntl
import json
import os
import pathlib
import threading

import fixtures

from octavia_xdp_provider.proxy.agent import haproxy
from octavia_xdp_provider.proxy.agent import launcher
from octavia_xdp_provider.proxy.agent import states
from octavia_xdp_provider.proxy.agent import watch
from octavia_xdp_provider.tests.support import waiting
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.proxy.agent import node


class StatesCase(waiting.Waiting, base.TestCase):

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path) / 'state'

    def write(self, key, **more):
        new = self.directory / f'.{key}'
        new.write_text(json.dumps({**node.STATE, **more}))
        new.rename(self.directory / f'{key}.json')


class TestStates(StatesCase):

    def setUp(self):
        super().setUp()
        self.states = states.States(str(self.directory))

    def test_only_what_has_changed_is_returned(self):
        self.directory.mkdir()
        self.write('a')
        self.write('b')
        self.assertEqual({'a', 'b'}, self.states.look())
        self.assertEqual(set(), self.states.look())
        self.write('a', pid=7)
        self.assertEqual(set(), self.states.read({'b', 'unknown'}))
        self.assertEqual({'a'}, self.states.read({'a', 'b'}))
        self.assertEqual(7, self.states.by_id['a']['pid'])
        (self.directory / 'a.json').unlink()
        self.assertEqual({'a'}, self.states.look())
        self.assertEqual({'b'}, self.states.by_id.keys())

    def test_directory_that_is_not_there_is_a_problem(self):
        self.assertEqual(set(), self.states.look())
        self.assertIn(launcher.NAME, self.states.problem)
        self.directory.mkdir()
        self.write('a')
        self.assertEqual({'a'}, self.states.look())
        self.assertIsNone(self.states.problem)
        self.directory.rename(self.directory.with_name('away'))
        self.assertEqual(set(), self.states.look())
        self.assertIn('a', self.states.by_id)

    def test_state_that_cannot_be_used_is_there_all_the_same(self):
        self.directory.mkdir()
        for text in '{', '{}', '[]', '\xff':
            (self.directory / 'a.json').write_text(text)
            with self.assertLogs(states.LOG.logger, 'ERROR'):
                self.assertEqual({'a'}, self.states.look())
            self.assertEqual({'a': None}, self.states.by_id)
            (self.directory / 'a.json').unlink()
            self.states.look()


class TestWatch(StatesCase):

    def setUp(self):
        super().setUp()
        self.called = threading.Event()
        self.watch = watch.Watch(str(self.directory), self.called.set)
        self.addCleanup(self.watch.stop)

    def take(self):
        self.assertTrue(self.called.wait(self.SOON))
        self.called.clear()
        return self.watch.take()

    def test_each_change_is_given_once(self):
        self.directory.mkdir()
        self.watch.start()
        self.assertIsNone(self.take())
        self.write('a')
        self.assertEqual({'a'}, self.take())
        (self.directory / 'a.json').unlink()
        self.assertEqual({'a'}, self.take())
        self.assertEqual(set(), self.watch.take())

    def test_another_directory_is_followed(self):
        self.patch(watch, 'RETRY_S', 0.01)
        self.patch(watch, 'LOOK_S', 0.01)
        self.watch.start()
        self.assertIsNone(self.watch.take())
        self.directory.mkdir()
        self.assertIsNone(self.take())
        self.directory.rename(self.directory.with_name('away'))
        self.directory.mkdir()
        self.assertIsNone(self.take())
        self.write('a')
        self.assertEqual({'a'}, self.take())


class TestLauncher(StatesCase):

    def test_launcher_that_holds_its_lock_runs(self):
        lock = str(self.directory)
        self.assertIn('does not run', launcher.problem(lock))
        file = os.open(lock, os.O_WRONLY | os.O_CREAT)
        self.addCleanup(os.close, file)
        self.assertIn('does not run', launcher.problem(lock))
        fcntl.flock(file, fcntl.LOCK_EX)
        self.assertIsNone(launcher.problem(lock))
        fcntl.flock(file, fcntl.LOCK_UN)
        self.assertIn('does not run', launcher.problem(lock))


class TestProgram(StatesCase):

    def program(self, text):
        new = self.directory.with_name('new')
        new.write_text(f'#!/bin/sh\n{text}\n')
        new.chmod(0o755)
        path = self.directory.with_name('haproxy')
        new.rename(path)
        return str(path)

    def test_version_follows_the_program(self):
        program = haproxy.Program(self.program(
            'echo "HAProxy version 2.6.12-1+deb12u1 2023/12/16 - https"'))
        self.assertEqual((2, 6), program.version())
        self.program('echo "HAProxy version 3.0.5 2024/01/01"')
        self.assertEqual((3, 0), program.version())

    def test_what_cannot_be_used_is_named(self):
        for text, problem in (('echo bash', 'is not HAProxy'),
                              ('echo "HAProxy version 2.4.1"', '2.4')):
            program = haproxy.Program(self.program(text))
            self.assertRaisesRegex(ValueError, problem, program.version)
        self.assertRaises(OSError, haproxy.Program('/missing').version)
