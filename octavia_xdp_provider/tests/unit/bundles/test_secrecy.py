# SPDX-License-Identifier: Apache-2.0
"""Protection of bundles on their way and in the database."""

import base64
import os
import pathlib
import tempfile
import threading

from octavia_xdp_provider.bundles import bundle
from octavia_xdp_provider.bundles import key_file
from octavia_xdp_provider.bundles import sealing
from octavia_xdp_provider.bundles import storage
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.bundles import certificates

LB, OTHER_LB = 'a' * 36, 'b' * 36


class Folder(base.TestCase):

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / 'key'
        self.bundle = bundle.certificate(*certificates.made())


class TestSealing(Folder):

    def pair(self, name):
        return sealing.KeyPair.load(self.path.with_name(name))

    def test_only_the_process_it_is_sealed_for_reads_it(self):
        node, other = self.pair('node'), self.pair('other')
        sealed = sealing.seal(self.bundle, node.public)
        name = self.bundle.name(LB)
        self.assertEqual(self.bundle, node.open(sealed, LB, name))
        error = self.assertRaises(sealing.SealError, other.open, sealed, LB,
                                  name)
        self.assertEqual('it is not sealed for this process', str(error))
        raw = base64.b64decode(sealed)
        for line in self.bundle.pem.splitlines():
            self.assertNotIn(line, raw)

    def test_pair_survives_a_restart(self):
        sealed = sealing.seal(self.bundle, self.pair('node').public)
        self.assertEqual(self.bundle, self.pair('node').open(
            sealed, LB, self.bundle.name(LB)))
        self.assertEqual(0o600,
                         self.path.with_name('node').stat().st_mode & 0o777)

    def test_another_bundle_than_asked_for_is_refused(self):
        """A broker may exchange answers; a node may be sent another's."""
        node = self.pair('node')
        other = bundle.certificate(*certificates.made('rsa'))
        for sealed, load_balancer_id in (
                (sealing.seal(other, node.public), LB),
                (sealing.seal(self.bundle, node.public), OTHER_LB)):
            error = self.assertRaises(
                sealing.SealError, node.open, sealed, load_balancer_id,
                self.bundle.name(LB))
            self.assertIn('another bundle', str(error))

    def test_damaged_boxes_are_refused(self):
        node = self.pair('node')
        sealed = sealing.seal(self.bundle, node.public)
        raw = bytearray(base64.b64decode(sealed))
        raw[-1] ^= 1
        for damaged in (base64.b64encode(raw).decode(), sealed[:40], '', '*'):
            self.assertRaises(sealing.SealError, node.open, damaged, LB,
                              self.bundle.name(LB))

    def test_text_that_is_no_public_key_is_refused(self):
        for key in ('', 'AAAA', 'not base64!', 'ä'):
            self.assertRaises(sealing.SealError, sealing.seal, self.bundle,
                              key)


class TestKeyFile(Folder):

    def test_processes_that_start_together_have_the_same_key(self):
        keys = []
        threads = [threading.Thread(target=lambda: keys.append(
            key_file.load(self.path, 32))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(1, len(set(keys)))
        self.assertEqual(8, len(keys))
        self.assertEqual([self.path], list(self.path.parent.iterdir()))

    def test_key_that_others_may_read_is_refused(self):
        key_file.load(self.path, 32)
        os.chmod(self.path, 0o640)
        error = self.assertRaises(PermissionError, key_file.load, self.path,
                                  32)
        self.assertIn('0600', str(error))

    def test_damaged_key_is_not_replaced(self):
        self.path.write_bytes(b'short')
        os.chmod(self.path, 0o600)
        self.assertRaises(OSError, key_file.load, self.path, 32)
        self.assertEqual(b'short', self.path.read_bytes())


class TestStorage(Folder):

    def test_keys_change_without_an_interruption(self):
        old, new = storage.generate_key(), storage.generate_key()
        stored = storage.Storage([old]).encrypt(self.bundle)
        both = storage.Storage([new, old])
        self.assertEqual(self.bundle, both.decrypt(stored))
        self.assertFalse(both.is_current(stored))
        rotated = both.rotate(stored)
        self.assertTrue(both.is_current(rotated))
        self.assertEqual(self.bundle, storage.Storage([new]).decrypt(rotated))
        error = self.assertRaises(storage.StorageError,
                                  storage.Storage([new]).decrypt, stored)
        self.assertEqual('no key of [secrets] keys_file decrypts it',
                         str(error))

    def test_what_is_stored_shows_nothing(self):
        stored = storage.Storage([storage.generate_key()]).encrypt(self.bundle)
        raw = base64.urlsafe_b64decode(stored)
        for line in self.bundle.pem.splitlines():
            self.assertNotIn(line, raw)

    def test_wrong_keys_are_named_by_their_place(self):
        error = self.assertRaises(
            storage.StorageError, storage.Storage,
            [storage.generate_key(), 'secret'])
        self.assertIn('number 2', str(error))
        self.assertNotIn('secret\'', str(error))
        error = self.assertRaises(storage.StorageError, storage.Storage, [])
        self.assertIn('[secrets] keys_file has no key', str(error))
