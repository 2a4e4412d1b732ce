# SPDX-License-Identifier: Apache-2.0
"""A certificate authority of the lab, and the control host's certificate."""

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import oid

from lab import paths

LIFETIME = datetime.timedelta(days=7)
# With identifiers of keys, what Python verifies since 3.13 (RFC 5280).
_FOR_CERTIFICATES = x509.KeyUsage(
    key_cert_sign=True, crl_sign=True, digital_signature=False,
    content_commitment=False, key_encipherment=False, data_encipherment=False,
    key_agreement=False, encipher_only=False, decipher_only=False)


def authority(lab):
    """The file with the authority's certificate, for those who verify."""
    return _directory(lab) / 'ca.pem'


def certificate(lab):
    """The control host's certificate."""
    return _directory(lab) / 'control.pem'


def key(lab):
    """Its private key."""
    return _directory(lab) / 'control-key.pem'


def make(lab):
    """Make both. The authority's own key is not kept."""
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
    own_key = ec.generate_private_key(ec.SECP256R1())
    own = _builder(
        x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME,
                                      paths.CONTROL)]),
        name, own_key).add_extension(
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
            (certificate(lab), _pem(own)),
            (key(lab), own_key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption()))):
        path.touch(mode=0o600)
        path.write_bytes(content)


def _builder(subject, issuer, its_key):
    now = datetime.datetime.now(datetime.UTC)
    return x509.CertificateBuilder(
        issuer, subject, its_key.public_key(), x509.random_serial_number(),
        now - datetime.timedelta(hours=1), now + LIFETIME)


def _pem(one):
    return one.public_bytes(serialization.Encoding.PEM)


def _directory(lab):
    return lab.host_directory(paths.CONTROL) / 'certificates'
