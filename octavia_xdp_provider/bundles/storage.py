# SPDX-License-Identifier: Apache-2.0
"""Bundles in the controllers' database: ciphertext only.

The keys are those of ``[secrets] keys_file``, which every controller has: the
first one encrypts, all of them decrypt, so that keys change without an
interruption. cryptography's Fernet does this (AES-128-CBC with HMAC-SHA-256),
as Keystone's credentials are stored.
"""

from collections.abc import Sequence

from cryptography import fernet

from octavia_xdp_provider.bundles import bundle as bundles


class StorageError(ValueError):
    """No key decrypts what is stored, or a key is none."""


def generate_key() -> str:
    """Return a new key, for the first place of the list."""
    return fernet.Fernet.generate_key().decode()


class Storage:
    """Encrypts and decrypts with a list of keys.

    :raises StorageError: a key is none; it is named by its place, as it is a
        secret.
    """

    def __init__(self, keys: Sequence[str]):
        self._keys = [_fernet(key, place)
                      for place, key in enumerate(keys, 1)]
        if not self._keys:
            raise StorageError(
                '[secrets] keys_file has no key: certificates cannot be '
                'stored. "octavia-xdp-manage secrets key" makes one')
        self._all = fernet.MultiFernet(self._keys)

    def encrypt(self, bundle: bundles.Bundle) -> str:
        """Return what may be stored."""
        return self._keys[0].encrypt(bundles.encode(bundle)).decode()

    def decrypt(self, stored: str) -> bundles.Bundle:
        """Return the bundle.

        :raises StorageError: it was stored under a key that is no more in the
            list, or is damaged.
        """
        try:
            return bundles.Bundle(*bundles.decode(
                self._all.decrypt(stored.encode())))
        except (fernet.InvalidToken, ValueError, KeyError, TypeError,
                AttributeError) as error:
            raise StorageError('no key of [secrets] keys_file decrypts it'
                               ) from error

    def is_current(self, stored: str) -> bool:
        """Whether the first key encrypted it."""
        try:
            self._keys[0].decrypt(stored.encode())
        except fernet.InvalidToken:
            return False
        return True

    def rotate(self, stored: str) -> str:
        """Return the same, encrypted by the first key.

        :raises StorageError: as decrypt().
        """
        return self.encrypt(self.decrypt(stored))


def _fernet(key: str, place: int) -> fernet.Fernet:
    try:
        return fernet.Fernet(key)
    except ValueError as error:
        raise StorageError(f'[secrets] keys_file: number {place} is no key of '
                           '32 bytes in URL-safe base64') from error
