# SPDX-License-Identifier: Apache-2.0
"""Certificates as Octavia hands them over, in a process of its own.

Octavia's local manager reads files that are named by the reference.
"""

import functools
import json
import pathlib
import subprocess
import sys
import tempfile

from octavia_lib.api.drivers import data_models

from octavia_xdp_provider.bundles import sealing
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.driver import secrets
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.bundles import certificates

LB = 'a' * 36

# Reads lines of (manager, storage path, public key, kind, Octavia's
# dictionary), and answers each by one.
_PROCESS = '''
import json
import sys
from octavia.common import config
from octavia.api.drivers import utils
from octavia_lib.api.drivers import data_models
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.driver import secrets
config.cfg.CONF([])
translate = {'listener': utils.listener_dict_to_provider_dict,
             'pool': utils.pool_dict_to_provider_dict}
types = {'listener': data_models.Listener, 'pool': data_models.Pool}
for line in sys.stdin:
    manager, path, key, kind, given = json.loads(line)
    config.cfg.CONF.set_override('cert_manager', manager, 'certificates')
    config.cfg.CONF.set_override('storage_path', path, 'certificates')
    try:
        answer = secrets.bundles(kind, types[kind].from_dict(
            translate[kind](given)), 'a' * 36, key)
    except Exception as error:
        answer = f'{type(error).__name__}: {error}'
    print(json.dumps(answer), flush=True)
'''


@functools.cache
def _process():
    return subprocess.Popen(
        [sys.executable, '-c', _PROCESS], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


class SecretsTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        self.keys = sealing.KeyPair.load(self.path / 'private')

    def store(self, reference, certificate, key=b'', passphrase=None):
        (self.path / f'{reference}.crt').write_bytes(certificate)
        (self.path / f'{reference}.key').write_bytes(key)
        if passphrase:
            (self.path / f'{reference}.pass').write_text(passphrase)

    def made(self, kind, manager='local_cert_manager', **given):
        process = _process()
        print(json.dumps([
            manager, str(self.path), self.keys.public, kind,
            {'id': 'l', 'project_id': 'p', **given}]), file=process.stdin,
            flush=True)
        return json.loads(process.stdout.readline())

    def opened(self, made, name):
        return self.keys.open(made[name], LB, name)


class TestOctavia(SecretsTestCase):

    def test_everything_of_a_listener_is_sealed_for_the_controllers(self):
        shop, key = certificates.made()
        other, other_key = certificates.made('rsa', 'other.example')
        authority, _ = certificates.made(name='authority.example')
        self.store('default', shop, certificates.encrypted(key), 'secret')
        self.store('sni', other, other_key)
        self.store('ca', authority)
        self.store('crl', certificates.revocations())
        fields, bundles = self.made(
            'listener', tls_certificate_id='default', sni_containers=['sni'],
            client_ca_tls_certificate_id='ca', client_crl_container_id='crl')
        self.assertEqual(4, len(bundles))
        opened = {name: self.opened(bundles, name) for name in bundles}
        self.assertEqual(['shop.example', 'www.shop.example'], opened[
            fields['default_tls_bundle']].host_names())
        self.assertEqual(['other.example', 'www.other.example'], opened[
            fields['sni_bundles'][0]].host_names())
        self.assertEqual(authority, opened[fields['client_ca_bundle']].pem)
        self.assertEqual(certificates.revocations(),
                         opened[fields['client_crl_bundle']].pem)

    def test_list_of_revoked_certificates_alone_is_loaded(self):
        """Octavia passes it on only along with a certificate."""
        self.store('crl', certificates.revocations())
        fields, bundles = self.made('listener', client_crl_container_id='crl')
        self.assertEqual({'client_crl_bundle': next(iter(bundles))}, fields)
        self.assertEqual(certificates.revocations(), self.opened(
            bundles, fields['client_crl_bundle']).pem)
        self.assertIn("'client_crl_container_ref': gone could not be read",
                      self.made('listener', client_crl_container_id='gone'))

    def test_everything_of_a_pool_is_sealed(self):
        client, key = certificates.made('rsa')
        self.store('client', client, key)
        self.store('ca', client)
        self.store('crl', certificates.revocations())
        fields, bundles = self.made(
            'pool', tls_certificate_id='client', ca_tls_certificate_id='ca',
            crl_container_id='crl')
        self.assertEqual({'tls_bundle', 'ca_bundle', 'crl_bundle'},
                         set(fields))
        self.assertEqual(set(fields.values()), set(bundles))

    def test_manager_that_returns_objects_for_authorities_is_understood(self):
        fields, bundles = self.made(
            'listener', manager='noop_cert_manager', tls_certificate_id='x',
            client_ca_tls_certificate_id='y')
        self.assertEqual(
            1, self.opened(bundles, fields['client_ca_bundle']).pem.count(
                b'BEGIN CERTIFICATE'))


class TestRefusals(SecretsTestCase):

    def made_of(self, kind, key=None, **fields):
        type_ = {'listener': data_models.Listener,
                 'pool': data_models.Pool}[kind]
        return secrets.bundles(kind, type_(**fields), LB,
                               key or self.keys.public)

    def container(self, certificate, key):
        return {'certificate': certificate, 'private_key': key,
                'intermediates': []}

    def test_content_that_proxies_refuse_is_refused_by_the_options_name(self):
        text, key = certificates.made()
        weak = self.container(*certificates.made('rsa1024'))
        good = self.container(text, key)
        for kind, option, data, content in (
                ('listener', 'default_tls_container', None, weak),
                ('listener', 'client_ca_tls_container', None, key),
                ('listener', 'client_crl_container', None, text),
                ('listener', 'sni_container', 'several', [good, weak]),
                ('listener', 'sni_container', 'several', [good]),
                ('pool', 'tls_container', None,
                 self.container(text, certificates.made('ed25519')[1])),
                ('pool', 'ca_tls_container', None, b'\xff'),
                ('pool', 'crl_container', None, text)):
            references = ('sni_container_refs', ['one', 'two']) if data else (
                f'{option}_ref', 'one')
            with self.subTest(option):
                error = self.assertRaises(
                    errors.Refused, self.made_of, kind, **dict(
                        [references], **{f'{option}_data': content}))
                self.assertEqual(references[0], error.option)
                self.assertNotIn('BEGIN', repr(error.__dict__))
                self.assertIsNone(error.__cause__)

    def test_without_a_key_of_the_controllers_certificates_are_refused(self):
        text, key = certificates.made()
        listener = data_models.Listener(
            default_tls_container_ref='one',
            default_tls_container_data=self.container(text, key))
        error = self.assertRaises(errors.Refused, secrets.bundles, 'listener',
                                  listener, LB, None)
        self.assertEqual('default_tls_container_ref', error.option)
        self.assertIn('[secrets] controller_public_key', error.for_operator)
        self.assertNotIn('controller_public_key', str(error))

    def test_reset_and_unset_references_need_no_key(self):
        self.assertEqual(
            ({'default_tls_bundle': None, 'sni_bundles': []}, {}),
            secrets.bundles('listener', data_models.Listener(
                default_tls_container_ref=None, sni_container_refs=[],
                name='new'), LB, None))
        self.assertEqual(({}, {}), secrets.bundles(
            'member', data_models.Member(name='new'), LB, None))
