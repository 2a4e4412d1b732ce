# SPDX-License-Identifier: Apache-2.0
"""Certificates made by the openssl command, as tenants make them."""

import functools
import pathlib
import subprocess
import tempfile

DAYS = 30


@functools.cache
def made(kind: str = 'ec', name: str = 'shop.example',
         issuer: str | None = None) -> tuple[bytes, bytes]:
    """Return (certificate, private key) in PEM; ``kind``: ec, rsa, rsa1024,
    ed25519 or dsa. ``issuer``: name of the one that signs it."""
    algorithm = {'ec': ['ec', '-pkeyopt', 'ec_paramgen_curve:P-256'],
                 'rsa': ['rsa:2048'], 'rsa1024': ['rsa:1024'],
                 'ed25519': ['ed25519'], 'ed448': ['ed448']}[kind]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        signs = []
        if issuer is not None:
            certificate, key = made(name=issuer)
            (root / 'ca.pem').write_bytes(certificate)
            (root / 'ca.key').write_bytes(key)
            signs = ['-CA', 'ca.pem', '-CAkey', 'ca.key']
        run(folder, 'req', '-x509', '-newkey', *algorithm, '-nodes', '-days',
            str(DAYS), '-subj', f'/CN={name}', '-addext',
            f'subjectAltName=DNS:{name},DNS:www.{name}', '-keyout', 'key.pem',
            '-out', 'certificate.pem', *signs)
        return ((root / 'certificate.pem').read_bytes(),
                (root / 'key.pem').read_bytes())


def encrypted(key: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / 'key.pem').write_bytes(key)
        run(folder, 'pkey', '-in', 'key.pem', '-aes256', '-passout',
            'pass:secret', '-out', 'encrypted.pem')
        return (pathlib.Path(folder) / 'encrypted.pem').read_bytes()


@functools.cache
def revocations(name: str = 'authority.example') -> bytes:
    """Return an authority's list, of nothing."""
    certificate, key = made(name=name)
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / 'ca.pem').write_bytes(certificate)
        (root / 'ca.key').write_bytes(key)
        (root / 'index.txt').write_text('')
        (root / 'ca.cnf').write_text(
            '[ca]\ndefault_ca = this\n[this]\ndatabase = index.txt\n'
            f'default_md = sha256\ndefault_crl_days = {DAYS}\n')
        run(folder, 'ca', '-config', 'ca.cnf', '-gencrl', '-cert', 'ca.pem',
            '-keyfile', 'ca.key', '-out', 'list.pem')
        return (root / 'list.pem').read_bytes()


def run(folder: str, *words: str) -> str:
    return subprocess.run(['openssl', *words], cwd=folder, check=True,
                          capture_output=True, text=True).stdout
