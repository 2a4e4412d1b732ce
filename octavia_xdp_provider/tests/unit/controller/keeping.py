# SPDX-License-Identifier: Apache-2.0
"""Controllers with keys, and changes with certificates as drivers send them.
"""

import os
import pathlib
import uuid

import fixtures

from octavia_xdp_provider.bundles import bundle
from octavia_xdp_provider.bundles import sealing
from octavia_xdp_provider.bundles import storage
from octavia_xdp_provider.controller import vault
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.tests.unit.bundles import certificates
from octavia_xdp_provider.tests.unit.controller import base as store_base
from octavia_xdp_provider.tests.unit.controller import requesting

LB = '11111111-1111-4111-8111-111111111111'
TLS = '22222222-2222-4222-8222-222222222222'


class BundlesTestCase(store_base.StoreTestCase):
    """``self.vault``: of a controller whose public key drivers have."""

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.pair = sealing.KeyPair.load(self.folder / 'private-key')
        self.key = storage.generate_key()
        self.write_keys(self.key)
        self.conf.set_override('private_key_file', str(
            self.folder / 'private-key'), 'secrets')
        self.conf.set_override('keys_file', str(self.folder / 'keys'),
                               'secrets')
        self.vault = vault.Vault(self.conf)

    def write_keys(self, *keys):
        path = self.folder / 'keys'
        path.write_text('\n'.join(keys) + '\n')
        os.chmod(path, 0o600)

    def sealed(self, *made, key=LB):
        """Return bundles as the driver sends them."""
        return {content.name(key): sealing.seal(content, self.pair.public)
                for content in made}

    def listener(self, action, made, key=TLS, **fields):
        """A change of a TLS listener that brings its certificate along."""
        return {'object': 'listener', 'action': action, 'object_id': key,
                'load_balancer_id': LB, 'bundles': self.sealed(made),
                'fields': {'protocol': 'TERMINATED_HTTPS',
                           'protocol_port': 443, 'default_pool_id': None,
                           'default_tls_container_ref': 'ref',
                           'default_tls_bundle': made.name(LB), **fields}}

    def add(self, change):
        """Store a change as a controller does, and return its request."""
        request = str(uuid.uuid4())
        rest, received = self.vault.receive(change)
        self.store.requests.add(rest, request, bundles=received)
        return request

    def do(self, change):
        """Store a change that Octavia commits."""
        request = self.add(change)
        self.assertIsNotNone(self.store.load_balancers.promote(LB, request))

    def register_proxy(self):
        self.store.nodes.register('proxy', role='proxy',
                                  addresses=['198.51.100.7'])

    def create(self):
        """Store a load balancer, in a cloud with a proxy node."""
        self.register_proxy()
        self.do(requesting.created(LB))

    def rows(self, key=LB):
        """Return name → row."""
        with self.store.database.read() as session:
            return {row.name: row for row in session.query(
                models.Bundle).filter_by(load_balancer_id=key)}

    def place_on_proxy(self, public_key=None):
        """Place the load balancer on the proxy node, which has this key."""
        self.store.nodes.set_public_key('proxy', public_key)
        self.store.placements.place(LB, add=['proxy'])


def certificate(kind='ec'):
    return bundle.certificate(*certificates.made(kind))
