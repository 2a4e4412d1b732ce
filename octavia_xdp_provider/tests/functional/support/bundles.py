# SPDX-License-Identifier: Apache-2.0
"""Certificates for proxies: each bundle has all that HAProxy may look for."""

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import oid

LIFETIME = datetime.timedelta(days=7)


def make(name, key=None):
    """Return a key, its certificate for a host, which may sign others as
    well, and a list of revoked ones, which is empty, as one text.

    :param key: a private key; one of an elliptic curve by default.
    """
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    begin, end = now - datetime.timedelta(hours=1), now + LIFETIME
    certificate = x509.CertificateBuilder(
        subject, subject, key.public_key(), x509.random_serial_number(), begin,
        end).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        ).add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]),
                        critical=False).sign(key, hashes.SHA256())
    revoked = x509.CertificateRevocationListBuilder(
        subject, begin, end).sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    return b''.join((
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8,
                          serialization.NoEncryption()),
        certificate.public_bytes(pem), revoked.public_bytes(pem))).decode()
