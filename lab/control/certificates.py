# SPDX-License-Identifier: Apache-2.0
"""The lab's certificate authority, and the control host's certificate."""

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import oid

from lab import paths

LIFETIME = datetime.timedelta(days=7)
# Python verifies it, and identifiers of keys, since 3.13 (RFC 5280).
_FOR_CERTIFICATES = x509.KeyUsage(
    key_cert_sign=True, crl_sign=True, digital_signature=False,
    content_commitment=False, key_encipherment=False, data_encipherment=False,
    key_agreement=False, encipher_only=False, decipher_only=False)


def authority(lab):
    """Return the path of the authority's certificate, for verification."""
    return _directory(lab) / 'ca.pem'


def certificate(lab):
    """Return the path of the control host's certificate."""
    return _directory(lab) / 'control.pem'


def key(lab):
    """Return the path of the control host's private key."""
    return _directory(lab) / 'control-key.pem'


def make(lab):
    """Create both certificates. The authority's key is not kept."""
    _directory(lab).mkdir()
    authority_key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(
        oid.NameOID.COMMON_NAME, f'Authority of lab {lab.id}')])
    key_identifier = x509.SubjectKeyIdentifier.from_public_key(
        authority_key.public_key())
    authority_certificate = _builder(name, name, authority_key).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    ).add_extension(_FOR_CERTIFICATES, critical=True).add_extension(
        key_identifier, critical=False).sign(authority_key, hashes.SHA256())
    control_key = ec.generate_private_key(ec.SECP256R1())
    control_certificate = _builder(
        x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME,
                                      paths.CONTROL)]),
        name, control_key).add_extension(
            x509.SubjectAlternativeName([
                x509.DNSName('localhost'),
                *(x509.IPAddress(ipaddress.ip_address(address))
                  for address in (paths.CONTROL_ADDRESS, '127.0.0.1'))]),
            critical=False).add_extension(
                x509.AuthorityKeyIdentifier
                .from_issuer_subject_key_identifier(key_identifier),
                critical=False).sign(authority_key, hashes.SHA256())
    for path, content in (
            (authority(lab), _pem(authority_certificate)),
            (certificate(lab), _pem(control_certificate)),
            (key(lab), control_key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption()))):
        path.touch(mode=0o600)
        path.write_bytes(content)


def _builder(subject, issuer, private_key):
    now = datetime.datetime.now(datetime.UTC)
    return x509.CertificateBuilder(
        issuer, subject, private_key.public_key(),
        x509.random_serial_number(),
        now - datetime.timedelta(hours=1), now + LIFETIME)


def _pem(signed):
    return signed.public_bytes(serialization.Encoding.PEM)


def _directory(lab):
    return lab.host_directory(paths.CONTROL) / 'certificates'
