# SPDX-License-Identifier: Apache-2.0
"""What TLS needs of a tenant's secrets: one PEM text for each purpose.

A bundle is checked when the driver makes it, so that a tenant learns at once
what is wrong, and a proxy is never given a text that it refuses. Its name is
known to everybody who may see documents and tells nothing of its content: it
is a hash with a key that is random and in the bundle itself. So a guess of the
content, as which authority a tenant trusts, cannot be tested, and nobody can
make another content of that name.
"""

import base64
from collections.abc import Iterable
import dataclasses
import datetime
import enum
import hashlib
import hmac
import json
import secrets

from cryptography import exceptions
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.asymmetric import rsa

from octavia_xdp_provider.contracts import sealed

SIZE_MAX = sealed.BUNDLE_BYTES_MAX
# What OpenSSL's security level 2 demands, which distributions set.
RSA_BITS_MIN = 2048
_NEVER = datetime.datetime.max.replace(tzinfo=datetime.timezone.utc)
# Bytes of a name's key.
_SALT = 32
# HAProxy's keys of tickets: it encrypts with the last but one, and decrypts
# with all three, so that a new one is everywhere before it is used.
TICKET_KEYS = 3
_TICKET_KEY_BYTES = 80

_Key = (rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey |
        ed25519.Ed25519PrivateKey)


class Kind(str, enum.Enum):
    """The purpose of a bundle."""

    # A certificate, those between it and its authority, and its private key.
    CERTIFICATE = 'certificate'
    # Certificates of authorities that the other side's must be signed by.
    AUTHORITY = 'authority'
    # Lists of certificates that these authorities have revoked.
    REVOCATIONS = 'revocations'
    # Keys of TLS session tickets, which controllers make.
    TICKETS = 'tickets'


class BundleError(ValueError):
    """A text that is no bundle. The message has nothing of its content."""


@dataclasses.dataclass(frozen=True, slots=True)
class Bundle:
    """A checked text, as HAProxy reads it from a file.

    ``salt``: key of its name.
    """

    kind: Kind
    pem: bytes = dataclasses.field(repr=False)
    salt: bytes = dataclasses.field(
        default_factory=lambda: secrets.token_bytes(_SALT), repr=False,
        compare=False)

    def name(self, load_balancer_id: str) -> str:
        """Return 64 hexadecimal digits: they depend on all bytes.

        A content that is given again has another name, so that names do not
        show who else uses it.
        """
        content = f'{load_balancer_id}\n{self.kind.value}\n'.encode()
        return hmac.new(self.salt, content + self.pem,
                        hashlib.sha256).hexdigest()

    def expires(self) -> datetime.datetime:
        """Return when the first certificate or list ends, in UTC; never for
        keys of tickets."""
        if self.kind == Kind.TICKETS:
            return _NEVER
        if self.kind == Kind.REVOCATIONS:
            ends = [revocations.next_update_utc
                    for revocations in _revocations(self.pem)]
            return min((end for end in ends if end is not None),
                       default=_NEVER)
        return min(certificate.not_valid_after_utc
                   for certificate in _certificates(self.pem))

    def host_names(self) -> list[str]:
        """Return the names by which clients may ask for the certificate."""
        first = _certificates(self.pem)[0]
        try:
            extension = first.extensions.get_extension_for_class(
                x509.SubjectAlternativeName)
            names = extension.value.get_values_for_type(x509.DNSName)
        except x509.ExtensionNotFound:
            names = []
        if not names:
            names = [str(attribute.value) for attribute in
                     first.subject.get_attributes_for_oid(
                         x509.NameOID.COMMON_NAME)]
        return sorted(set(names))


def certificate(pem: bytes, private_key: bytes,
                intermediates: Iterable[bytes] = ()) -> Bundle:
    """Return the bundle of a listener's or a pool's own certificate.

    :raises BundleError: one of them is no PEM, the key is encrypted, weak, of
        a type that proxies do not support, or not that of the certificate.
    """
    first, *more = _certificates(pem)
    key = _private_key(private_key)
    if key.public_key() != first.public_key():
        raise BundleError('the private key is not that of the certificate')
    chain = [*more, *(link for text in intermediates
                      for link in _certificates(text))]
    return _bundle(Kind.CERTIFICATE, [
        _text(first), *(_text(link) for link in chain), key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption())])


def authority(pem: bytes) -> Bundle:
    """Return the bundle of authorities that are trusted.

    :raises BundleError: there is no PEM certificate.
    """
    return _bundle(Kind.AUTHORITY, map(_text, _certificates(pem)))


def revocations(pem: bytes) -> Bundle:
    """Return the bundle of lists of revoked certificates.

    :raises BundleError: there is no PEM list.
    """
    return _bundle(Kind.REVOCATIONS, map(_text, _revocations(pem)))


def tickets(former: Bundle | None = None) -> Bundle:
    """Return new keys of session tickets, the last of which is new.

    :param former: the keys until now, whose last ones stay.
    """
    keys = former.pem.splitlines() if former is not None else []
    while len(keys) <= TICKET_KEYS:
        keys.append(base64.b64encode(secrets.token_bytes(_TICKET_KEY_BYTES)))
    return _bundle(Kind.TICKETS, (key + b'\n' for key in keys[-TICKET_KEYS:]))


def from_text(kind: Kind, pem: bytes, salt: bytes) -> Bundle:
    """Return the bundle that another process has made.

    :raises BundleError: it is none of this kind.
    """
    made = _from_text(kind, pem)
    if len(salt) != _SALT:
        raise BundleError(f'the key of its name has {len(salt)} bytes')
    return dataclasses.replace(made, salt=salt)


def _from_text(kind: Kind, pem: bytes) -> Bundle:
    if kind == Kind.AUTHORITY:
        return authority(pem)
    if kind == Kind.REVOCATIONS:
        return revocations(pem)
    if kind == Kind.TICKETS:
        return _checked_tickets(pem)
    return certificate(pem, pem)


def _checked_tickets(text: bytes) -> Bundle:
    keys = text.splitlines()
    try:
        sizes = {len(base64.b64decode(key, validate=True)) for key in keys}
    except ValueError:
        sizes = set()
    if len(keys) != TICKET_KEYS or sizes != {_TICKET_KEY_BYTES}:
        raise BundleError(f'there are no {TICKET_KEYS} keys of tickets')
    return _bundle(Kind.TICKETS, (key + b'\n' for key in keys))


def encode(bundle: Bundle) -> bytes:
    """Return the bundle as it is sealed, or encrypted for the database."""
    return json.dumps({'kind': bundle.kind.value, 'pem': bundle.pem.decode(),
                       'salt': bundle.salt.hex()}).encode()


def decode(content: bytes) -> tuple[Kind, bytes, bytes]:
    """Return (purpose, text, key of the name), unchecked, of what encode()
    returned.

    :raises ValueError, KeyError, TypeError, AttributeError: it is something
        else.
    """
    fields = json.loads(content)
    return (Kind(fields['kind']), fields['pem'].encode(),
            bytes.fromhex(fields['salt']))


def _check_size(pem: bytes) -> None:
    if len(pem) > SIZE_MAX:
        raise BundleError(f'it has {len(pem)} bytes, the limit is {SIZE_MAX}')


def _bundle(kind: Kind, parts: Iterable[bytes]) -> Bundle:
    pem = b''.join(parts)
    _check_size(pem)
    return Bundle(kind, pem)


def _text(parsed: x509.Certificate | x509.CertificateRevocationList
          ) -> bytes:
    return parsed.public_bytes(serialization.Encoding.PEM)


def _certificates(pem: bytes) -> list[x509.Certificate]:
    _check_size(pem)
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise BundleError('there is no valid PEM certificate') from error


_LIST = b'-----BEGIN X509 CRL-----', b'-----END X509 CRL-----'


def _revocations(pem: bytes) -> list[x509.CertificateRevocationList]:
    """Parse all lists: the library reads only the first one of a text."""
    begin, end = _LIST
    _check_size(pem)
    texts = [begin + part.partition(end)[0] + end + b'\n'
             for part in pem.split(begin)[1:]]
    try:
        lists = [x509.load_pem_x509_crl(text) for text in texts]
    except ValueError as error:
        raise BundleError('a list of revoked certificates is no valid PEM'
                          ) from error
    if not lists:
        raise BundleError('there is no PEM list of revoked certificates')
    return lists


def _private_key(pem: bytes) -> _Key:
    try:
        key = serialization.load_pem_private_key(pem, None)
    except TypeError as error:
        raise BundleError('the private key is encrypted: store it without a '
                          'passphrase, or its passphrase beside it'
                          ) from error
    except (ValueError, exceptions.UnsupportedAlgorithm) as error:
        raise BundleError('the private key is no valid PEM') from error
    if isinstance(key, rsa.RSAPrivateKey):
        if key.key_size < RSA_BITS_MIN:
            raise BundleError(f'the RSA key has {key.key_size} bits; proxies '
                              f'accept {RSA_BITS_MIN} and more')
        return key
    if isinstance(key, ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
        return key
    raise BundleError('the private key must be RSA, ECDSA or Ed25519')
