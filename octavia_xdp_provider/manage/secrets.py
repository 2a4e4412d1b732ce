# SPDX-License-Identifier: Apache-2.0
"""Commands for the controllers' keys, and for tenants' certificates."""

import argparse
import datetime
import os
import pathlib
from typing import Any

from octavia_xdp_provider.bundles import key_file
from octavia_xdp_provider.bundles import sealing
from octavia_xdp_provider.bundles import storage
from octavia_xdp_provider.controller import vault
from octavia_xdp_provider.controller.store import bundles
from octavia_xdp_provider.manage import command
from octavia_xdp_provider.process import atomic_file


def describe(bundle: bundles.Described) -> dict[str, Any]:
    """Return what an operator may see of a certificate."""
    return {'name': bundle.name, 'kind': bundle.kind,
            'expires': _date(bundle.expires_at)}


def _date(expires_at: float | None) -> str | None:
    """Return a date in UTC; None for never."""
    if expires_at is None:
        return None
    return datetime.datetime.fromtimestamp(
        expires_at, datetime.timezone.utc).strftime('%Y-%m-%dT%H:%M:%SZ')


class Key(command.Command):
    """Create the controllers' keys if there are none; print the public key.

    The files are [secrets] private_key_file and keys_file. Copy both to all
    control hosts. To change the key of what is stored: --add, copy keys_file
    to all control hosts; --use, copy it again; "secrets rotate"; delete all
    lines but the first one, and copy it once more.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        change = parser.add_mutually_exclusive_group()
        change.add_argument(
            '--add', action='store_true',
            help='add a new key to keys_file, which only decrypts yet')
        change.add_argument(
            '--use', action='store_true',
            help='encrypt with the last key of keys_file from now on')
        return parser

    def take_action(self, arguments: argparse.Namespace) -> None:
        options = self.conf.secrets
        private, keys = map(pathlib.Path, (options.private_key_file,
                                           options.keys_file))
        try:
            _make_directories(private, keys)
            public = sealing.KeyPair.load(private).public
            key_file.create(keys, f'{storage.generate_key()}\n'.encode())
            lines = key_file.read(keys).decode('ascii', 'replace').split()
            storage.Storage(lines)
            if arguments.add:
                _write(keys, [*lines, storage.generate_key()])
            if arguments.use:
                _write(keys, [lines[-1], *lines[:-1]])
        except OSError as error:
            raise command.CommandError(
                f'{error}. Run this as root or as the controllers\' user'
                ) from error
        except storage.StorageError as error:
            raise command.CommandError(f'{error}') from error
        self.app.stdout.write(
            'Configuration of the driver, where octavia-api runs:\n'
            '  [secrets]\n'
            f'  controller_public_key = {public}\n'
            f'Copy to all control hosts: {private} {keys}\n')


def _make_directories(*paths: pathlib.Path) -> None:
    for path in {path.parent for path in paths}:
        if path.is_dir():
            continue
        path.mkdir(mode=0o700)
        if os.geteuid() == 0:
            owner = path.parent.stat()
            os.chown(path, owner.st_uid, owner.st_gid)


def _write(path: pathlib.Path, lines: list[str]) -> None:
    """Replace a private file, whose owner keeps it."""
    owner = path.stat()
    atomic_file.replace(path, '\n'.join([*lines, '']).encode(), mode=0o600)
    if os.geteuid() == 0:
        os.chown(path, owner.st_uid, owner.st_gid)


class Rotate(command.Command):
    """Encrypt everything that is stored with the first key of keys_file.

    It may be interrupted at any time, and goes on when it is run again. All
    controllers must have the same file before.
    """

    def take_action(self, arguments: argparse.Namespace) -> None:
        store = self.store()
        keys = vault.Vault(self.conf)
        replaced = 0
        try:
            while True:
                others = 0
                for page in store.bundles.pages():
                    for key, row, text in vault.rotate(keys, page):
                        others += 1
                        replaced += store.bundles.replace(key, row, text)
                if not others:
                    break
        except vault.VaultError as error:
            raise command.CommandError(
                f'{error}. {replaced} rows were encrypted again; the others '
                'are as before') from error
        self.app.stdout.write(
            f'{replaced} rows were encrypted with the first key. No row needs '
            'another one.\n')


class List(command.List):
    """List stored certificates and lists of revoked certificates.

    "expires" is when the first certificate or list of a row ends. Contents
    are not shown.
    """

    def take_action(self, arguments: argparse.Namespace) -> command.Table:
        return ('load_balancer', 'name', 'kind', 'expires'), [
            (bundle.load_balancer_id, *describe(bundle).values())
            for bundle in self.store().bundles.describe()]
