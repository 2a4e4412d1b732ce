# SPDX-License-Identifier: Apache-2.0
"""The operator's commands for keys and certificates."""

import base64
import contextlib
import os
import pathlib
import re
from unittest import mock

from cryptography import fernet
import fixtures
from nacl import public

from octavia_xdp_provider.controller.store import bundles
from octavia_xdp_provider.tests.unit.controller import keeping
from octavia_xdp_provider.tests.unit.manage import base

LB = keeping.LB


class SecretsTestCase(keeping.BundlesTestCase, base.ManageTestCase):

    def setUp(self):
        super().setUp()
        self.configure('[secrets]\n'
                       f'private_key_file = {self.folder}/private-key\n'
                       f'keys_file = {self.folder}/keys\n'
                       '[nodes]\n'
                       'transport_url = rabbit://c:s@broker:5671/{vhost}\n')

    def keys(self):
        return (self.folder / 'keys').read_text().split()

    def ciphertexts(self):
        return {name: row.ciphertext.encode()
                for name, row in self.rows().items()}


class TestKey(base.ManageTestCase):

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(
            fixtures.TempDir()).path) / 'new'
        self.configure('[secrets]\n'
                       f'private_key_file = {self.folder}/private-key\n'
                       f'keys_file = {self.folder}/keys\n')

    def test_keys_are_created_once_and_only_the_public_one_is_printed(self):
        out = self.done('secrets', 'key')
        private = (self.folder / 'private-key').read_bytes()
        expected = base64.b64encode(bytes(
            public.PrivateKey(private).public_key)).decode()
        self.assertIn(f'  controller_public_key = {expected}\n', out)
        key = (self.folder / 'keys').read_text().strip()
        fernet.Fernet(key)
        self.assertNotIn(key, out)
        self.assertEqual(out, self.done('secrets', 'key'))
        self.assertEqual(key, (self.folder / 'keys').read_text().strip())
        for name in ('private-key', 'keys'):
            self.assertEqual(0o600,
                             (self.folder / name).stat().st_mode & 0o777)
        # The driver accepts what was printed.
        self.load(f'[secrets]\ncontroller_public_key = {expected}\n')

    def test_new_key_decrypts_before_it_encrypts(self):
        self.done('secrets', 'key')
        first, = (self.folder / 'keys').read_text().split()
        self.assertNotIn(first, self.done('secrets', 'key', '--add'))
        added, new = (self.folder / 'keys').read_text().split()
        self.assertEqual(first, added)
        self.done('secrets', 'key', '--use')
        self.assertEqual([new, first],
                         (self.folder / 'keys').read_text().split())
        self.assertEqual(0o600,
                         (self.folder / 'keys').stat().st_mode & 0o777)

    def test_files_that_others_may_read_are_refused(self):
        self.done('secrets', 'key')
        os.chmod(self.folder / 'keys', 0o644)
        self.assertIn('0600', self.refused('secrets', 'key'))


class TestRotate(SecretsTestCase):

    def setUp(self):
        super().setUp()
        self.create()
        self.made = [keeping.certificate() for _ in range(3)]
        change = self.listener('create', self.made[0], sni_bundles=[
            made.name(LB) for made in self.made[1:]])
        change['bundles'].update(self.sealed(*self.made))
        self.do(change)
        self.done('secrets', 'key', '--add')
        self.done('secrets', 'key', '--use')

    def decrypted(self, key):
        """Names of the rows that a key alone decrypts."""
        names = set()
        for name, text in self.ciphertexts().items():
            with contextlib.suppress(fernet.InvalidToken):
                fernet.Fernet(key).decrypt(text)
                names.add(name)
        return names

    def test_everything_is_encrypted_with_the_first_key(self):
        names = {made.name(LB) for made in self.made}
        new, old = self.keys()
        self.assertEqual((set(), names), (self.decrypted(new),
                                          self.decrypted(old)))
        self.assertIn('3 rows', self.done('secrets', 'rotate'))
        self.assertEqual((names, set()), (self.decrypted(new),
                                          self.decrypted(old)))
        self.assertIn('0 rows', self.done('secrets', 'rotate'))

    def test_rotation_that_is_killed_goes_on(self):
        replace = bundles.Bundles.replace
        rows = []

        def killed(store, *arguments):
            if len(rows) == 2:
                raise KeyboardInterrupt
            rows.append(arguments)
            return replace(store, *arguments)
        with (mock.patch.object(bundles.Bundles, 'replace', killed),
              contextlib.suppress(KeyboardInterrupt)):
            self.run_command('secrets', 'rotate')
        new, old = self.keys()
        self.assertEqual((2, 1), (len(self.decrypted(new)),
                                  len(self.decrypted(old))))
        self.assertIn('1 rows', self.done('secrets', 'rotate'))
        self.assertEqual(3, len(self.decrypted(new)))

    def test_row_that_changes_meanwhile_is_not_overwritten(self):
        (_, row), *_ = next(self.store.bundles.pages())
        self.assertTrue(self.store.bundles.replace(LB, row, 'newer'))
        self.assertFalse(self.store.bundles.replace(LB, row, 'older'))
        self.assertEqual(b'newer', self.ciphertexts()[row.name])

    def test_missing_key_is_named(self):
        self.write_keys(self.keys()[0])
        error = self.refused('secrets', 'rotate')
        self.assertIn('no key of [secrets] keys_file decrypts it', error)


class TestList(SecretsTestCase):

    def test_names_kinds_and_ends_are_shown_without_contents(self):
        self.create()
        made = keeping.certificate()
        self.do(self.listener('create', made))
        row, = self.listed('secrets', 'list')
        expected = {'name': made.name(LB), 'kind': 'certificate'}
        self.assertEqual({**expected, 'load_balancer': LB}, {
            key: row[key] for key in row if key != 'expires'})
        self.assertTrue(re.fullmatch(
            r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ', row['expires']))
        shown, = self.listed('lb', 'show', LB)['certificates']
        self.assertEqual({**expected, 'expires': row['expires']}, shown)


class TestPublicKey(SecretsTestCase):

    def registered(self):
        return {node.host: node.public_key
                for node in self.store.nodes.all()}

    def test_key_of_a_proxy_node_is_registered_and_removed(self):
        key = self.pair.public
        self.done('node', 'create', 'p1', '--role', 'proxy', '--address',
                  '198.51.100.7', '--public-key', key)
        self.assertEqual({'p1': key}, self.registered())
        self.done('node', 'public-key', 'p1')
        self.assertEqual({'p1': None}, self.registered())
        self.done('node', 'public-key', 'p1', key)
        self.assertEqual({'p1': key}, self.registered())

    def test_other_keys_and_nodes_are_refused(self):
        self.done('node', 'create', 'lb1')
        self.assertIn('is an LB node', self.refused(
            'node', 'public-key', 'lb1', self.pair.public))
        self.assertIn('unknown', self.refused(
            'node', 'public-key', 'p1', self.pair.public))
        self.assertIn('no public key', self.refused(
            'node', 'create', 'p1', '--role', 'proxy', '--address',
            '198.51.100.7', '--public-key', 'AAAA'))
        self.assertEqual({'lb1': None}, self.registered())
