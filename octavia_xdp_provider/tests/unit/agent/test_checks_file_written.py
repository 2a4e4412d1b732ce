# SPDX-License-Identifier: Apache-2.0
"""Checks files on the disk."""

import dataclasses
import json
import os
import pathlib
import stat
from unittest import mock

from oslotest import base

from octavia_xdp_provider.agent import checks_file

TCP = checks_file.Check(
    type='tcp', address='198.18.10.10', port=80, delay=5, timeout=3)
HTTP = dataclasses.replace(TCP, type='http', http=checks_file.HttpOptions())
PING = dataclasses.replace(TCP, type='ping')


class TestLoad(base.BaseTestCase):
    def load(self, text):
        return checks_file.load(self.create_tempfiles([('x', text)])[0])

    def test_a_written_document_is_read(self):
        document = checks_file.build_document([TCP, PING])
        self.assertEqual(document, self.load(json.dumps(document)))

    def test_what_the_checker_would_refuse_is_refused(self):
        for text in ('', '{', '[]', '{"version": 2, "checks": []}', '\0'):
            self.assertRaises(checks_file.ChecksFileError, self.load, text)


class TestWrite(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.create_tempfiles([('x', '')])[0])
        self.folder = self.folder.parent / 'folder'
        self.folder.mkdir()
        self.path = self.folder / 'checks.json'

    def names(self):
        return sorted(os.listdir(self.folder))

    def test_writes_a_document_that_passes(self):
        self.assertTrue(checks_file.write(self.path, [TCP, HTTP]))

        document = json.loads(self.path.read_text())
        checks_file.validate(document)
        self.assertEqual(2, len(document['checks']))
        self.assertEqual(['checks.json'], self.names())

    def test_nobody_else_reads_what_tenants_have_probed(self):
        checks_file.write(self.path, [TCP])

        self.assertEqual(0o600, stat.S_IMODE(self.path.stat().st_mode))

    def test_file_has_the_mode_that_is_asked_for(self):
        checks_file.write(self.path, [TCP], mode=0o640)

        self.assertEqual(0o640, stat.S_IMODE(self.path.stat().st_mode))

    def test_same_content_is_left_alone(self):
        checks_file.write(self.path, [TCP])
        before = self.path.stat().st_ino

        self.assertFalse(checks_file.write(self.path, [TCP]))

        self.assertEqual(before, self.path.stat().st_ino)

    def test_replaces_by_a_new_file(self):
        checks_file.write(self.path, [TCP])
        with self.path.open() as reader:
            checks_file.write(self.path, [HTTP])
            old = json.load(reader)

        self.assertEqual(TCP.key, old['checks'][0]['key'])

    def test_a_bad_check_leaves_the_old_file(self):
        checks_file.write(self.path, [TCP])
        before = self.path.read_bytes()

        self.assertRaises(
            checks_file.ChecksFileError,
            checks_file.write,
            self.path,
            [dataclasses.replace(TCP, rise=11)],
        )

        self.assertEqual(before, self.path.read_bytes())
        self.assertEqual(['checks.json'], self.names())

    def test_a_full_disk_leaves_the_old_file(self):
        checks_file.write(self.path, [TCP])
        before = self.path.read_bytes()

        with mock.patch('os.fsync', side_effect=OSError(28, 'No space')):
            self.assertRaises(OSError, checks_file.write, self.path, [HTTP])

        self.assertEqual(before, self.path.read_bytes())
        self.assertEqual(['checks.json'], self.names())

    def test_stale_temporary_files_go(self):
        stale = self.folder / '.tmp-checks.json-killed'
        fresh = self.folder / '.tmp-checks.json-other'
        for path in (stale, fresh):
            path.touch()
        os.utime(stale, (0, 0))

        checks_file.write(self.path, [TCP])

        self.assertEqual(
            ['.tmp-checks.json-other', 'checks.json'], self.names()
        )
