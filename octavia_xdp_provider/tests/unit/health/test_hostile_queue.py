# SPDX-License-Identifier: Apache-2.0
"""Entries that a compromised health checker could put into the queue."""

import os
import pathlib

from octavia_xdp_provider.health import queue_directory
from octavia_xdp_provider.health import queue_file
from octavia_xdp_provider.tests.unit.result_handler import handling

DELTA = queue_file.delta_name(handling.BOOT, 1)
SECRET = b'the secret of somebody else'


class TestHostileQueue(handling.HandlerTestCase):

    def setUp(self):
        super().setUp()
        self.other = pathlib.Path(self.directory, 'other')
        self.other.mkdir(mode=0o700)
        self.victim = self.other / 'victim'
        self.victim.write_bytes(SECRET)
        self.rejected = pathlib.Path(self.directory, 'rejected')

    def plant(self, name, make):
        make(f'{self.queue}/{name}')

    def assert_nothing_happened(self):
        """The good result that comes after it is applied all the same."""
        self.delta(2, handling.record(6, handling.UP))
        self.assertEqual({6: True}, self.step())
        self.assertEqual([self.victim], list(self.other.iterdir()))
        self.assertEqual(SECRET, self.victim.read_bytes())

    def test_links_are_not_followed(self):
        for name in (DELTA, 'snapshot', 'README'):
            with self.subTest(name=name):
                self.plant(name, lambda path: os.symlink(self.victim, path))
                self.step()
                self.assertFalse(os.path.lexists(f'{self.queue}/{name}'))
                self.assertEqual([], list(self.rejected.iterdir()))
        self.assert_nothing_happened()

    def test_pipe_in_the_queue_does_not_block(self):
        for name in (DELTA, 'snapshot', 'README'):
            with self.subTest(name=name):
                self.plant(name, os.mkfifo)
                self.step()
                self.assertFalse(os.path.lexists(f'{self.queue}/{name}'))
        self.assert_nothing_happened()

    def test_file_that_has_another_name_is_not_kept(self):
        self.plant('README', lambda path: os.link(self.victim, path))
        self.step()
        self.assertEqual([], list(self.rejected.iterdir()))
        self.assert_nothing_happened()

    def test_file_that_is_too_large_is_neither_read_nor_kept(self):
        self.write(DELTA, b'OXPQ')
        os.truncate(f'{self.queue}/{DELTA}', queue_directory.BYTES_MAX + 1)
        self.step()
        self.assertEqual(1, self.value('rejected_files_total',
                                       reason='length'))
        self.assertEqual([], list(self.rejected.iterdir()))
        self.assert_nothing_happened()

    def test_rejected_files_are_not_moved_where_others_can_write(self):
        """In the place of the directory of rejected files."""
        def link():
            self.rejected.symlink_to(self.other)

        def open_to_all():
            self.rejected.mkdir()
            self.rejected.chmod(0o777)

        for make in (link, open_to_all):
            with self.subTest(make=make.__name__):
                make()
                self.write('README', b'hello')
                self.step()
                self.assertFalse(os.path.exists(f'{self.queue}/README'))
                self.assertNotIn('README', os.listdir(self.rejected))
                if self.rejected.is_symlink():
                    self.rejected.unlink()
                else:
                    self.rejected.rmdir()
        self.assert_nothing_happened()

    def test_queue_behind_a_link_is_refused(self):
        os.rename(self.queue, f'{self.directory}/true')
        os.symlink(self.other, self.queue)
        self.assertRaises(OSError, self.step)
        self.assertEqual([self.victim], list(self.other.iterdir()))

    def test_names_are_as_long_and_strange_as_can_be(self):
        for name in (255 * b'x', b'\xff\n\x1b[2J'):
            path = os.fsencode(f'{self.queue}/') + name
            pathlib.Path(os.fsdecode(path)).write_bytes(b'hello')
            self.step()
            self.assertFalse(os.path.exists(path))
        self.assertEqual(4, len(list(self.rejected.iterdir())))
        self.assert_nothing_happened()

    def test_directories_are_left_alone(self):
        for name in (DELTA, 'README', 'rejected'):
            self.plant(name, os.mkdir)
            pathlib.Path(self.queue, name, 'file').touch()
        self.assert_nothing_happened()
        self.assertEqual(3, len(os.listdir(self.queue)))
