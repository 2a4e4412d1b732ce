# SPDX-License-Identifier: Apache-2.0
"""The key pair of a proxy node, and the command that prints its public key."""

import base64
import contextlib
import io
import pathlib
import sys
from unittest import mock

import fixtures
from nacl import public

from octavia_xdp_provider.cmd import proxy_agent
from octavia_xdp_provider.proxy.secrets import own_key
from octavia_xdp_provider.tests.unit import base


class TestOwnKey(base.TestCase):

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def derived(self):
        """The public key of the private one, by libsodium."""
        return base64.b64encode(bytes(public.PrivateKey(
            (self.folder / 'private-key').read_bytes()).public_key)).decode()

    def test_pair_is_made_once_and_its_private_key_is_the_owners(self):
        pair = own_key.load(str(self.folder))
        self.assertEqual(self.derived(), pair.public)
        self.assertEqual(pair.public, own_key.load(str(self.folder)).public)
        self.assertEqual(0o600, (
            self.folder / 'private-key').stat().st_mode & 0o777)

    def run_command(self):
        path = self.create_tempfiles([(
            'test', f'[proxy]\nstate_directory = {self.folder}\n')],
            ext='.conf')[0]
        out, err = io.StringIO(), io.StringIO()
        with mock.patch.object(sys, 'argv', [
                'octavia-xdp-proxy-agent', '--config-file', path,
                '--public-key']), contextlib.redirect_stdout(
                    out), contextlib.redirect_stderr(err):
            return proxy_agent.main(), out.getvalue(), err.getvalue()

    def test_command_prints_the_public_key(self):
        status, out, _ = self.run_command()
        self.assertEqual((0, f'{self.derived()}\n'), (status, out))
        self.assertEqual(out, self.run_command()[1])

    def test_missing_directory_is_named(self):
        self.folder = self.folder / 'missing'
        status, out, err = self.run_command()
        self.assertEqual((1, ''), (status, out))
        self.assertIn('[proxy] state_directory', err)
