# SPDX-License-Identifier: Apache-2.0
"""No text of any process has a tenant's private key.

A certificate goes the whole way from the driver to a node, with a failure at
each step, while everything that might show it is collected: logs at all
levels, representations, exceptions with their tracebacks, messages, answers,
the database.
"""

import base64
import io
import json
import logging
import traceback

from octavia_lib.api.drivers import data_models
from oslo_serialization import jsonutils

from octavia_xdp_provider.bundles import bundle
from octavia_xdp_provider.bundles import sealing
from octavia_xdp_provider.controller import driver_api
from octavia_xdp_provider.controller import secrets_api
from octavia_xdp_provider.driver import secrets
from octavia_xdp_provider.proxy.secrets import held
from octavia_xdp_provider.tests.unit.bundles import certificates
from octavia_xdp_provider.tests.unit.controller import keeping

LB = keeping.LB


class Direct:
    """Calls of a node that keep what is sent."""

    def __init__(self, endpoint, seen):
        self._endpoint, self._seen = endpoint, seen

    def bundles(self, host, names):
        return self._seen(self._endpoint.bundles(None, host, names))

    def tickets(self, host, ids):
        return self._seen(self._endpoint.tickets(None, host, ids))


class TestSecrecy(keeping.BundlesTestCase):

    def setUp(self):
        super().setUp()
        self.texts = []
        self.log = io.StringIO()
        handler = logging.StreamHandler(self.log)
        root = logging.getLogger()
        level = root.level
        root.setLevel(logging.DEBUG)
        self.addCleanup(root.setLevel, level)
        root.addHandler(handler)
        self.addCleanup(root.removeHandler, handler)
        self.node = sealing.KeyPair(b'n' * 32)
        self.certificate, self.private_key = certificates.made()

    def seen(self, value):
        self.texts += [repr(value), str(value), json.dumps(value, default=str)]
        return value

    def attempt(self, function, *arguments, **more):
        """Call, and keep the result or the exception with its frames."""
        try:
            return self.seen(function(*arguments, **more))
        except Exception as error:
            self.texts += [repr(error), traceback.format_exc(), repr(
                vars(error)), jsonutils.dumps(error.args, default=repr)]
            return None

    def of_driver(self, **data):
        container = {'certificate': self.certificate, 'intermediates': [],
                     'private_key': self.private_key, **data}
        return self.attempt(
            secrets.bundles, 'listener', data_models.Listener(
                default_tls_container_ref='ref',
                default_tls_container_data=container), LB, self.pair.public)

    def change(self, made):
        fields, bundles = made
        change = self.listener('create', keeping.certificate())
        change['fields'].update(fields)
        change['bundles'] = bundles
        return change

    def stored(self):
        """The database, as a dump."""
        with self.store.database.read_rows() as opened:
            return '\n'.join(opened.connection.driver_connection.iterdump())

    def shown(self):
        """Everything that was collected, and each decoding of it."""
        return '\n'.join([*self.texts, self.log.getvalue(), self.stored()])

    def test_private_key_is_in_no_text(self):
        self.create()
        self.of_driver(private_key=self.private_key[:-40])
        self.of_driver(private_key=certificates.encrypted(
            self.private_key))
        self.of_driver(certificate=self.private_key)
        made = self.of_driver()
        api = driver_api.DriverEndpoint(
            self.store, lambda reports_end: None, lambda ids: None,
            lambda promoted: None, receive=self.vault.receive)
        deadline = self.store.database.now() + 30
        sound = self.change(made)
        name = sound['fields']['default_tls_bundle']
        damaged = {**sound, 'bundles': {name: sound['bundles'][name][:-8]}}
        # Only an attacker who controls the driver would send this.
        unsealed = {**sound, 'bundles': {name: base64.b64encode(
            sealing.SealError.__name__.encode()).decode()}}
        for number, change in enumerate((damaged, unsealed, sound)):
            self.seen(change)
            self.attempt(api.change, None, change, f'r{number}', deadline,
                         True)
        self.attempt(api.ended, None, 'r2', True)
        self.assertIn(name, self.rows())
        self.place_on_proxy(self.node.public)
        node = held.Secrets('proxy', Direct(secrets_api.SecretsEndpoint(
            self.store, self.vault), self.seen), self.node, lambda: None)
        node.want({LB: frozenset([name])})
        node.fetch()
        self.assertIn(self.certificate.splitlines()[1],
                      node.files(LB, frozenset([name]))[f'{name}.pem'])
        self.seen(vars(node))
        self.write_keys(self.key_of_nothing())
        self.attempt(node.fetch)
        self.attempt(self.vault.seal, LB, self.rows()[name],
                     self.node.public)
        self.seen(vars(self.vault))
        self.assert_secret(self.shown(), name)

    def key_of_nothing(self):
        return base64.urlsafe_b64encode(b'k' * 32).decode()

    def assert_secret(self, shown, name):
        self.assertIn(name, shown)  # it is about this certificate
        self.assertGreater(len(shown), 10_000)
        made = bundle.certificate(self.certificate, self.private_key)
        secret = [line for line in (self.private_key + made.pem.partition(
            b'PRIVATE')[2]).decode().splitlines() if '-----' not in line]
        self.assertGreater(len(secret), 4)
        for line in secret:
            for form in (line, repr(line.encode())[2:-1],
                         base64.b64encode(line.encode()).decode()[:40]):
                self.assertNotIn(form, shown)
        for private in (self.key.encode(), b'n' * 32):
            for form in (private, private.hex().encode(),
                         base64.b64encode(private)):
                self.assertNotIn(form.decode(), shown)
