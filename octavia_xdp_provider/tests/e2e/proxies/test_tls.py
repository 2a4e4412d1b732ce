# SPDX-License-Identifier: Apache-2.0
"""TERMINATED_HTTPS with certificates that tenants store in Barbican."""

import pathlib
import tempfile

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from openstack import exceptions

from lab import processes
from lab.fabric import client
from lab.fabric import http
from lab.fabric import proxies
from octavia_xdp_provider.tests.e2e.support import certificates
from octavia_xdp_provider.tests.e2e.support import proxied
from octavia_xdp_provider.tests.e2e.support import strangers

PROTOCOL, PORT = 'TERMINATED_HTTPS', 443
DEFAULT, OTHER = 'default.example', 'other.example'


class TlsCase(proxied.ProxiedCase):

    def store(self, name):
        """A certificate and its reference in Barbican."""
        certificate = certificates.Certificate(name)
        return certificate, self.removed_later(
            certificates.store_pkcs12(self.lab, certificate))

    def key_manager(self):
        return self.connection().key_manager

    def removed_later(self, reference):
        self.addCleanup(self.remove, reference)
        return reference

    def remove(self, reference):
        kind, identity = reference.split('/')[-2:]
        getattr(self.key_manager(), f'delete_{kind[:-1]}')(identity)

    def create_https(self, reference, *sni):
        return self.create_http(
            protocol=PROTOCOL, port=PORT, pool_options={'protocol': 'HTTP'},
            listener_options={
                'default_tls_container_ref': reference,
                'sni_container_refs': list(sni),
                'insert_headers': dict.fromkeys(proxied.HEADERS, 'true')})

    def s_client(self, balancer, name):
        """What openssl says of a handshake."""
        return processes.run(self.lab, client.CLIENT, [
            'openssl', 's_client', '-servername', name,
            '-alpn', 'h2,http/1.1',
            '-connect', f'{balancer.vip_address}:{PORT}'], input='').stdout

    def served(self, balancer, name):
        """The certificate that clients get who ask for this name."""
        return x509.load_pem_x509_certificate(
            self.s_client(balancer, name).encode())

    def ask_verified(self, balancer, certificate):
        """Send a request to a certificate's name, and trust only that."""
        with tempfile.TemporaryDirectory() as directory:
            trusted = pathlib.Path(directory) / 'trusted.pem'
            trusted.write_bytes(certificate.pem)
            return http.ask(
                self.lab, f'https://{certificate.name}/headers',
                '--cacert', str(trusted), '--resolve',
                f'{certificate.name}:{PORT}:{balancer.vip_address}')


class TestTls(proxied.SharedCase, TlsCase):

    def share(self):
        self.nodes = proxies.names(self.lab)
        default, reference = self.store(DEFAULT)
        other = certificates.Certificate(OTHER)
        made = self.create_https(reference, self.removed_later(
            certificates.store_container(self.key_manager(), other)))
        type(self).default, type(self).other = default, other
        type(self).reference = reference
        return made

    def test_clients_get_the_certificate_of_the_name_they_ask_for(self):
        for certificate in self.default, self.other:
            answer = self.ask_verified(self.balancer, certificate)
            self.assertEqual(200, answer.status)
        self.assertEqual(self.default.certificate,
                         self.served(self.balancer, 'unknown.example'))

    def test_clients_are_offered_http_2(self):
        self.assertIn('ALPN protocol: h2\n',
                      self.s_client(self.balancer, DEFAULT))

    def test_members_are_told_that_the_client_used_tls(self):
        shown = http.shown(self.ask_verified(self.balancer, self.default))
        self.assertEqual(
            (self.client_address, str(PORT), 'https'),
            tuple(shown[name] for name in proxied.HEADERS))

    def test_certificate_is_replaced_without_a_failed_request(self):
        new, reference = self.store(DEFAULT)
        self.addCleanup(self.replace, self.default, self.reference)
        with client.Load(self.lab, f'https://{self.balancer.vip_address}/',
                         options=['--insecure']) as load:
            self.wait_answers(load)
            self.replace(new, reference)
            self.wait_answers(load)
        self.assertEqual([], load.answers.failures)

    def wait_answers(self, load, number=20):
        """Wait for so many more answers."""
        wanted = load.answers.total + number
        self.wait('answers', lambda: load.answers.total >= wanted)

    def replace(self, certificate, reference):
        self.sdk.update_listener(self.listener.id,
                                 default_tls_container_ref=reference)
        self.wait_active(self.balancer)
        # Of each proxy.
        for _ in range(10):
            self.assertEqual(certificate.certificate,
                             self.served(self.balancer, DEFAULT))

    def refused(self, reference):
        """Why there is no listener with this reference."""
        with self.assertRaises(exceptions.HttpException) as caught:
            self.sdk.create_listener(
                load_balancer_id=self.balancer.id, protocol=PROTOCOL,
                protocol_port=8443, default_tls_container_ref=reference)
        self.wait_active(self.balancer)
        self.assertEqual([PORT], [
            listener.protocol_port for listener
            in self.sdk.listeners(load_balancer_id=self.balancer.id)])
        return caught.exception.details

    def test_secret_that_is_gone_is_refused(self):
        reference = certificates.store_pkcs12(self.lab, self.default)
        self.remove(reference)
        self.assertIn(reference, self.refused(reference))

    def test_secret_of_another_tenant_is_refused(self):
        stranger = self.unique('stranger')
        self.addCleanup(strangers.create(self.lab, stranger))
        reference = certificates.store_pkcs12(self.lab, self.default,
                                              stranger)
        self.assertIn(reference, self.refused(reference))

    def test_weak_key_is_refused_by_the_options_name(self):
        weak = certificates.Certificate(OTHER, rsa.generate_private_key(
            65537, 1024))  # noqa: S505
        reference = self.removed_later(
            certificates.store_pkcs12(self.lab, weak))
        self.assertIn('default_tls_container_ref', self.refused(reference))


class TestKeys(TlsCase):

    def test_nothing_is_left_of_the_key_of_a_deleted_load_balancer(self):
        certificate, reference = self.store(DEFAULT)
        balancer, _, _, _ = self.create_https(reference)
        for node in self.nodes:
            self.assertNotEqual([], self.files_of_node(certificate, node))
        self.assertEqual([], certificates.files_with_key(
            certificate, self.lab.directory))
        self.delete_balancer(balancer)
        self.wait(lambda: f'end of {self.files_of_nodes(certificate)}',
                  lambda: not self.files_of_nodes(certificate))
        for directory in self.lab.directory, self.lab.run_directory:
            self.assertEqual([], certificates.files_with_key(
                certificate, directory))

    def files_of_node(self, certificate, node):
        return certificates.files_with_key(
            certificate, proxies.run_directory(self.lab, node))

    def files_of_nodes(self, certificate):
        return [path for node in self.nodes
                for path in self.files_of_node(certificate, node)]
