# SPDX-License-Identifier: Apache-2.0
"""A run directory on a small file system that is full: needs root."""

import errno
import os
import pathlib
import tempfile
import types
import unittest

from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.agent.bgp.route import Route
from octavia_xdp_provider.node import reserve
from octavia_xdp_provider.node import run_directory
from octavia_xdp_provider.tests.functional.support import private_node

FIRST, SECOND = map(Route.parse, ('203.0.113.10', '203.0.113.11'))


class TestFull(unittest.TestCase):

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest('needs root')
        folder = tempfile.TemporaryDirectory(prefix='octavia-xdp-test-')
        self.addCleanup(folder.cleanup)
        self.directory = pathlib.Path(folder.name) / 'run'
        self.directory.mkdir()
        private_node.command('mount', '-t', 'tmpfs', '-o', 'size=64k',
                             'tmpfs', str(self.directory))
        self.addCleanup(private_node.command, 'umount', '-l',
                        str(self.directory))
        self.files = run_directory.RunDirectory(types.SimpleNamespace(
            agent=types.SimpleNamespace(run_directory=str(self.directory))))
        self.files.make()

    def fill(self):
        with open(self.directory / 'filler', 'wb', buffering=0) as filler:
            try:
                while True:
                    filler.write(bytes(4096))
            except OSError as error:
                self.assertEqual(errno.ENOSPC, error.errno)

    def free(self):
        (self.directory / 'filler').unlink()

    def test_check_finds_that_it_is_full_and_leaves_nothing(self):
        self.files.check_writable()
        before = sorted(os.listdir(self.directory))
        self.files.check_writable()
        self.assertEqual(before, sorted(os.listdir(self.directory)))
        self.fill()
        with self.assertRaises(OSError) as caught:
            self.files.check_writable()
        self.assertEqual(errno.ENOSPC, caught.exception.errno)
        self.free()
        self.files.check_writable()

    def test_announcements_stay_whole_and_follow_when_there_is_room(self):
        wanted = announcements.Announcements(self.directory,
                                             ['203.0.113.0/24'])
        wanted.set([FIRST])
        self.fill()
        with self.assertRaises(OSError) as caught:
            wanted.set([FIRST, SECOND])
        self.assertEqual(errno.ENOSPC, caught.exception.errno)
        self.assertEqual([FIRST], list(wanted.wanted().values()))
        self.free()
        wanted.set([FIRST, SECOND])
        self.assertEqual([FIRST, SECOND], list(wanted.wanted().values()))

    def test_a_vip_is_withdrawn_on_a_file_system_that_others_have_filled(self):
        wanted = announcements.Announcements(
            self.directory, ['203.0.113.0/24'],
            reserve.Reserve(self.files.reserve, 1 << 14))
        wanted.keep_room()
        wanted.set([FIRST, SECOND])
        self.fill()
        wanted.set([FIRST])
        self.assertEqual([FIRST], list(wanted.wanted().values()))
        # The room is kept again as soon as there is some.
        self.fill()
        self.free()
        wanted.keep_room()
        self.fill()
        wanted.set([])
        self.assertEqual([], list(wanted.wanted().values()))
