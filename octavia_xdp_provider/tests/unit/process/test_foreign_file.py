# SPDX-License-Identifier: Apache-2.0
"""Files that others may have planted, and who reads and writes beside them."""

import os
import pathlib
import stat

from octavia_xdp_provider.agent import uplinks_file
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.health import checks_directory
from octavia_xdp_provider.health import secret_file
from octavia_xdp_provider.process import atomic_file
from octavia_xdp_provider.process import foreign_file
from octavia_xdp_provider.process.agents import wanted
from octavia_xdp_provider.tests.unit import base


class TestForeignFile(base.TestCase):

    def setUp(self):
        super().setUp()
        self.victim = pathlib.Path(self.create_tempfiles([('victim', 'x')])[0])
        self.victim.write_bytes(b'y' * secret_file.BYTES)
        self.directory = self.victim.parent / 'run'
        self.directory.mkdir()
        self.planted = self.directory / 'planted'

    def link(self, name):
        path = self.directory / name
        path.symlink_to(self.victim)
        return path

    def test_read_is_limited(self):
        self.planted.write_bytes(b'12345')
        self.assertEqual(b'123', foreign_file.read(self.planted, 3)[0])
        self.assertEqual(b'12345', foreign_file.read(self.planted, 9)[0])

    def test_only_regular_files_are_read(self):
        os.mkfifo(self.planted)
        self.assertRaises(OSError, foreign_file.read, self.planted, 9)
        self.assertRaises(OSError, foreign_file.read, self.link('link'), 9)
        self.assertRaises(OSError, foreign_file.read, self.directory, 9)

    def test_files_are_replaced_whatever_is_there(self):
        os.mkfifo(self.planted)
        self.assertTrue(atomic_file.replace(self.planted, b'new'))
        self.assertEqual(b'new', self.planted.read_bytes())
        self.assertTrue(atomic_file.replace(self.link('link'), b'new'))
        self.assertNotEqual(b'new', self.victim.read_bytes())

    def test_replaced_file_has_the_mode_and_stale_temporary_files_go(self):
        stale, fresh = (self.directory / f'.tmp-planted-{name}'
                        for name in ('killed', 'other'))
        for path in (stale, fresh):
            path.touch()
        os.utime(stale, (0, 0))
        self.assertTrue(atomic_file.replace(self.planted, b'new', 0o640))
        self.assertEqual(0o640, stat.S_IMODE(self.planted.stat().st_mode))
        self.assertEqual({self.planted, fresh},
                         set(self.directory.iterdir()))

    def test_uplinks_are_not_written_through_a_link(self):
        before = self.victim.read_bytes()
        self.link(f'{uplinks_file.FILE_NAME}.new')
        uplinks_file.write(self.directory, {})
        self.assertEqual(before, self.victim.read_bytes())

    def test_secret_behind_a_link_is_not_used(self):
        path = self.link('secret')
        self.assertNotEqual(self.victim.read_bytes(), secret_file.load(path))

    def test_directories_of_others_are_not_used(self):
        for name in ('wanted', 'checks'):
            other = self.victim.parent / f'other-{name}'
            other.mkdir()
            (self.directory / name).symlink_to(other)
        self.assertRaises(OSError, checks_directory.ChecksDirectory(
            self.directory / 'checks').make)
        other = self.victim.parent / 'other-wanted'
        (other / 'as_of').write_text('7')
        self.assertIsNone(wanted.Cache(self.directory / 'wanted').load())

    def test_pipes_in_place_of_files_do_not_block(self):
        agents = announcements.Announcements(self.directory, ['192.0.2.0/24'])
        for name in (announcements.LOCK_NAME, announcements.STATUS_NAME,
                     announcements.FILE_NAME):
            os.mkfifo(self.directory / name)
        self.assertIsNone(agents.status())
        self.assertEqual({}, agents.wanted())
