# SPDX-License-Identifier: Apache-2.0
import base64
import dataclasses
import datetime
import hashlib
import hmac
import pathlib
import ssl
import tempfile

from octavia_xdp_provider.bundles import bundle
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.bundles import certificates

LB, OTHER_LB = 'a' * 36, 'b' * 36


class TestCertificate(base.TestCase):

    def load(self, made):
        """Load a pair by OpenSSL, like HAProxy; raises if it is invalid."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / 'bundle.pem'
            path.write_bytes(made.pem)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(path)
            return context

    def test_certificate_and_key_of_each_type_are_accepted(self):
        for kind in ('ec', 'rsa', 'ed25519'):
            with self.subTest(kind):
                made = bundle.certificate(*certificates.made(kind))
                self.load(made)
                self.assertEqual(made, bundle.from_text(made.kind, made.pem,
                                                made.salt))

    def test_blank_lines_and_comments_are_left_out(self):
        """An empty line would end what HAProxy reads at run time."""
        text, key = certificates.made()
        made = bundle.certificate(
            b'subject=/CN=x\n\n' + text.replace(b'\n', b'\r\n') + b'\n\n', key)
        self.assertEqual(bundle.certificate(text, key).pem, made.pem)
        self.assertNotIn(b'\n\n', made.pem)
        self.assertNotIn(b'subject', made.pem)

    def test_intermediates_stand_between_certificate_and_key(self):
        text, key = certificates.made(issuer='authority.example')
        authority, _ = certificates.made(name='authority.example')
        made = bundle.certificate(text, key, [authority])
        self.load(made)
        parts = [line for line in made.pem.splitlines() if b'BEGIN' in line]
        self.assertEqual([b'-----BEGIN CERTIFICATE-----'] * 2 +
                         [b'-----BEGIN PRIVATE KEY-----'], parts)
        self.assertEqual(made, bundle.from_text(made.kind, made.pem,
                                                made.salt))

    def test_what_proxies_would_refuse_is_refused_with_the_reason(self):
        text, key = certificates.made()
        for arguments, reason in (
                ((b'', key), 'no valid PEM certificate'),
                ((key, key), 'no valid PEM certificate'),
                ((text, text), 'key is no valid PEM'),
                ((text, certificates.made('rsa')[1]), 'not that of the'),
                ((text, certificates.encrypted(key)), 'encrypted'),
                (certificates.made('rsa1024'), '1024 bits'),
                (certificates.made('ed448'), 'must be RSA, ECDSA or Ed25519'),
                ((text * 1000, key), 'limit')):
            with self.subTest(reason):
                error = self.assertRaises(bundle.BundleError,
                                          bundle.certificate, *arguments)
                self.assertIn(reason, str(error))

    def test_content_is_not_shown(self):
        made = bundle.certificate(*certificates.made())
        for text in (repr(made), str(made), f'{made!r}'):
            self.assertNotIn('BEGIN', text)

    def test_names_of_clients_and_end(self):
        made = bundle.certificate(*certificates.made())
        self.assertEqual(['shop.example', 'www.shop.example'],
                         made.host_names())
        left = made.expires() - datetime.datetime.now(datetime.UTC)
        self.assertEqual(certificates.DAYS - 1, left.days)


class TestTrust(base.TestCase):

    def test_authorities_and_revocations(self):
        first, _ = certificates.made(name='authority.example')
        second, _ = certificates.made(name='other.example')
        made = bundle.authority(first + b'\n' + second)
        self.assertEqual(2, made.pem.count(b'BEGIN CERTIFICATE'))
        context = ssl.create_default_context(cadata=made.pem.decode())
        self.assertEqual(2, context.cert_store_stats()['x509_ca'])
        text = certificates.revocations()
        made = bundle.revocations(text + b'\n\n' +
                                  certificates.revocations('other.example'))
        self.assertEqual(2, made.pem.count(b'BEGIN X509 CRL'))
        self.assertEqual(made, bundle.from_text(made.kind, made.pem,
                                                made.salt))
        self.assertEqual(certificates.DAYS - 1, (
            made.expires() - datetime.datetime.now(datetime.UTC)).days)

    def test_other_texts_are_refused(self):
        text, key = certificates.made()
        self.assertRaises(bundle.BundleError, bundle.authority, key)
        self.assertRaises(bundle.BundleError, bundle.revocations, text)
        self.assertRaises(bundle.BundleError, bundle.revocations,
                          b'-----BEGIN X509 CRL-----\nAA==\n'
                          b'-----END X509 CRL-----\n')


class TestName(base.TestCase):

    def test_name_depends_on_content_purpose_load_balancer_and_salt(self):
        text, key = certificates.made()
        made = bundle.certificate(text, key)
        given_again = bundle.certificate(text, key)
        self.assertEqual(made, given_again)
        # The same certificate with another key is another bundle.
        others = [dataclasses.replace(other, salt=made.salt) for other in (
            bundle.authority(text), bundle.certificate(
                *certificates.made('rsa')))]
        names = {made.name(LB), made.name(OTHER_LB), given_again.name(LB),
                 *(other.name(LB) for other in others)}
        self.assertEqual(5, len(names))
        for name in names:
            self.assertRegex(name, '^[0-9a-f]{64}$')

    def test_name_is_the_same_at_its_receiver(self):
        made = bundle.authority(certificates.made()[0])
        received = bundle.from_text(*bundle.decode(bundle.encode(made)))
        self.assertEqual(made.name(LB), received.name(LB))

    def test_guess_of_the_content_cannot_be_tested(self):
        """Authorities and load balancers' ids are known to many."""
        text, _ = certificates.made()
        made = bundle.authority(text)
        guesses = {hmac.new(key, content, hashlib.sha256).hexdigest()
                   for key in (LB.encode(), b'')
                   for content in (
                       made.pem, b'authority\n' + made.pem,
                       f'{LB}\nauthority\n'.encode() + made.pem)}
        self.assertNotIn(made.name(LB), guesses)

    def test_short_salt_is_refused(self):
        made = bundle.authority(certificates.made()[0])
        self.assertRaises(bundle.BundleError, bundle.from_text, made.kind,
                          made.pem, b'')


class TestTickets(base.TestCase):

    def keys(self, tickets):
        return [base64.b64decode(line, validate=True)
                for line in tickets.pem.splitlines()]

    def test_new_key_is_last_and_the_former_last_one_encrypts(self):
        """HAProxy encrypts with the last but one of its three keys."""
        first = bundle.tickets()
        second = bundle.tickets(first)
        before, after = self.keys(first), self.keys(second)
        self.assertEqual([80] * 3, list(map(len, after)))
        self.assertEqual(before[1:], after[:2])
        self.assertEqual(4, len({*before, *after}))
        self.assertEqual(second, bundle.from_text(
            second.kind, second.pem, second.salt))

    def test_other_texts_are_refused(self):
        made = bundle.tickets()
        for text in (b'', made.pem + made.pem, made.pem[:-9], b'*\n' * 3):
            self.assertRaises(bundle.BundleError, bundle.from_text,
                              made.kind, text, made.salt)
