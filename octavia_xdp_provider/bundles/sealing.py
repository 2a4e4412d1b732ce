# SPDX-License-Identifier: Apache-2.0
"""Bundles on their way: readable only by the process they are for.

The driver seals for the controllers, these for each proxy node that serves the
load balancer. The broker between them, its traces and its disk never have a
private key. libsodium's sealed boxes (X25519, XSalsa20-Poly1305) do this, by
PyNaCl: each has keys of its own, so that not even its sender can open it.

A sealed box does not say who made it. This is no loss: its content is asked
for by its name, which only that content has.
"""

import base64
import os
import pathlib

from nacl import exceptions
from nacl import public

from octavia_xdp_provider.bundles import bundle as bundles
from octavia_xdp_provider.bundles import key_file


class SealError(ValueError):
    """What arrived was not sealed for this process, or is another bundle."""


class KeyPair:
    """A process's own keys; the private one never leaves its file."""

    def __init__(self, private: bytes):
        self._private = public.PrivateKey(private)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> 'KeyPair':
        """Return the pair of a file, which is created if it does not exist.

        :raises OSError: the file cannot be read or written: a pair that is
            lost makes everything unreadable that was sealed for it.
        """
        return cls(key_file.load(pathlib.Path(path), public.PrivateKey.SIZE))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> 'KeyPair':
        """Return the pair of an existing file.

        :raises OSError: it cannot be read.
        """
        return cls(key_file.read(pathlib.Path(path), public.PrivateKey.SIZE))

    @property
    def public(self) -> str:
        """The public key, 44 characters of base64."""
        return base64.b64encode(bytes(self._private.public_key)).decode()

    def open(self, sealed: str, load_balancer_id: str,
             name: str) -> bundles.Bundle:
        """Return the bundle with this name.

        :raises SealError: it is sealed for another process or damaged, or has
            another name.
        """
        try:
            plain = public.SealedBox(self._private).decrypt(
                base64.b64decode(sealed, validate=True))
        except (ValueError, exceptions.CryptoError,
                exceptions.TypeError) as error:
            raise SealError('it is not sealed for this process') from error
        try:
            bundle = bundles.from_text(*bundles.decode(plain))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SealError('it contains no bundle') from error
        if bundle.name(load_balancer_id) != name:
            raise SealError('it is another bundle than was asked for')
        return bundle


def seal(bundle: bundles.Bundle, public_key: str) -> str:
    """Return the bundle in base64, sealed for the owner of a public key.

    :raises SealError: that is no key.
    """
    key = check_public_key(public_key)
    return base64.b64encode(
        public.SealedBox(key).encrypt(bundles.encode(bundle))).decode()


def check_public_key(text: str) -> public.PublicKey:
    """Return a public key from its base64.

    :raises SealError: it is none.
    """
    try:
        return public.PublicKey(base64.b64decode(text, validate=True))
    except (ValueError, TypeError) as error:
        raise SealError(f'{text!r} is no public key') from error
