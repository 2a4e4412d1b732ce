# SPDX-License-Identifier: Apache-2.0
"""Broker and database over TLS, as the security page says it."""

import datetime
import os
import ssl

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import oid
import fixtures
from oslo_db import exception as db_exception
import sqlalchemy as sa

from octavia_xdp_provider.controller import broker
from octavia_xdp_provider.controller.store import schema
from octavia_xdp_provider.tests.functional.support import amqp_connection
from octavia_xdp_provider.tests.unit import base

DATABASE = 'OCTAVIA_XDP_TEST_DATABASE_URL'
NODE_URLS = 'OCTAVIA_XDP_TEST_NODE_URLS'
CA_FILE = 'OCTAVIA_XDP_TEST_CA_FILE'


class TestTls(base.TestCase):

    def setUp(self):
        super().setUp()
        for variable in (DATABASE, NODE_URLS, CA_FILE):
            if not os.environ.get(variable):
                self.skipTest(f'{variable} is not set; tools/test functional '
                              'runs these tests')

    def another_authority(self):
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(
            oid.NameOID.COMMON_NAME, 'another')])
        now = datetime.datetime.now(datetime.UTC)
        day = datetime.timedelta(days=1)
        certificate = x509.CertificateBuilder(
            name, name, key.public_key(), x509.random_serial_number(),
            now - day, now + day).sign(key, hashes.SHA256())
        path = self.useFixture(fixtures.TempDir()).join('ca.pem')
        with open(path, 'wb') as file:
            file.write(certificate.public_bytes(serialization.Encoding.PEM))
        return path

    def broker(self, ca_file):
        connection = amqp_connection.to(
            os.environ[NODE_URLS].split()[0], broker.node_vhost('lb1'),
            ca_file)
        self.addCleanup(connection.release)
        return connection

    def database(self, ca_file):
        conf = self.load(
            '[database]\nmax_retries = 0\n'
            f'connection = {os.environ[DATABASE]}&ssl_ca={ca_file}\n')
        return schema.context_manager(conf).writer

    def test_a_broker_of_another_authority_is_not_spoken_to(self):
        self.broker(os.environ[CA_FILE]).connect()
        self.assertRaises(ssl.SSLCertVerificationError,
                          self.broker(self.another_authority()).connect)

    def test_the_database_is_asked_over_tls(self):
        engine = self.database(os.environ[CA_FILE]).get_engine()
        with engine.connect() as connection:
            ciphers = connection.execute(
                sa.text("SHOW STATUS LIKE 'Ssl_cipher'"))
            self.assertNotEqual('', ciphers.one()[1])

    def test_a_database_of_another_authority_is_not_spoken_to(self):
        engine = self.database(self.another_authority()).get_engine()
        self.assertRaises(db_exception.DBConnectionError, engine.connect)
