# SPDX-License-Identifier: Apache-2.0
"""TLS of a real HAProxy with our configuration, on loopback."""

import http.client
import json
import ssl
import subprocess
import warnings

from octavia_xdp_provider.bundles import bundle
from octavia_xdp_provider.tests.functional.support import bundles
from octavia_xdp_provider.tests.functional.support import haproxy
from octavia_xdp_provider.tests.functional.support import haproxy_case
from octavia_xdp_provider.tests.support import proxied as documents

WEB, WEBS = haproxy_case.WEB, haproxy_case.WEBS
DEFAULT, SNI = 'a' * 64, 'b' * 64
TLS11, TLS12, TLS13 = (ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2,
                       ssl.TLSVersion.TLSv1_3)


class Requests(haproxy_case.Requests):

    def terminated(self, secrets=None, tickets=None, **more):
        return self.start(
            documents.web(members=self.members('m'), **{
                'protocol': 'TERMINATED_HTTPS', 'default_tls_bundle': DEFAULT,
                'sni_bundles': [SNI], 'insert_headers': ['X-Forwarded-Proto'],
                **more}),
            secrets=secrets or {DEFAULT: bundles.make('default.example.com'),
                                SNI: bundles.make('sni.example.com')},
            **({'tickets': tickets} if tickets else {}))

    def handshake(self, proxy, name='default.example.com', own=None,
                  versions=(TLS12, TLS13), before=None):
        """Return a connection with what TLS has negotiated.

        :param own: hash of the bundle that the client shows.
        :param before: an earlier connection, whose session is to be resumed.
        """
        context = before.sock.context if before else self._context(
            proxy, name, own, versions)
        client = http.client.HTTPConnection('127.0.0.1', proxy.ports[WEB],
                                            timeout=20)
        self.addCleanup(client.close)
        client.connect()
        client.sock = context.wrap_socket(
            client.sock, server_hostname=name,
            session=before and before.sock.session)
        return client

    def _context(self, proxy, name, own, versions):
        context = ssl.create_default_context(cafile=proxy.settings.bundle(
            SNI if name.startswith('sni') else DEFAULT))
        context.set_alpn_protocols(['h2', 'http/1.1'])
        # TLS 1.1 has nothing but SHA-1.
        context.set_ciphers('DEFAULT:@SECLEVEL=0')
        with warnings.catch_warnings():
            warnings.simplefilter('ignore', DeprecationWarning)
            context.minimum_version, context.maximum_version = versions
        if own:
            context.load_cert_chain(proxy.settings.bundle(own))
        return context

    def test_certificates_are_chosen_by_name(self):
        proxy = self.terminated(alpn_protocols=['h2', 'http/1.1'])
        for name in ('default.example.com', 'sni.example.com'):
            connection = self.handshake(proxy, name)
            self.assertEqual('h2', connection.sock.selected_alpn_protocol())
        curl = subprocess.run(
            ['curl', '--http2', '--silent', '--show-error', '--include',
             '--cacert', proxy.settings.bundle(SNI), '--resolve',
             f'sni.example.com:{proxy.ports[WEB]}:127.0.0.1',
             f'https://sni.example.com:{proxy.ports[WEB]}/x'],
            check=True, capture_output=True, text=True, timeout=60).stdout
        self.assertTrue(curl.startswith('HTTP/2 200'), curl)
        self.assertIn('"x-forwarded-proto": ["https"]', curl)

    def test_hsts_without_alpn(self):
        proxy = self.terminated(hsts_max_age=60, hsts_preload=True)
        client = self.handshake(proxy)
        self.assertIsNone(client.sock.selected_alpn_protocol())
        client.request('GET', '/')
        self.assertEqual('max-age=60; preload;', client.getresponse().headers[
            'Strict-Transport-Security'])

    def test_versions_of_tls_are_those_that_were_asked_for(self):
        proxy = self.terminated(tls_versions=['TLSv1.1', 'TLSv1.2'])
        for version in TLS11, TLS12:
            client = self.handshake(proxy, versions=(version, version))
            self.assertEqual(version.name.replace('_', '.'),
                             client.sock.version())
        self.assertRaises(
            ssl.SSLError, self.handshake, proxy,
            versions=(TLS13, TLS13))

    def test_clients_have_to_show_a_certificate(self):
        proxy = self.terminated(client_ca_bundle=SNI, client_crl_bundle=SNI,
                                client_authentication='MANDATORY',
                                insert_headers=['X-SSL-Client-CN'])
        # TLS 1.2, for a client learns of a refusal in the handshake there.
        only = {'versions': (TLS12, TLS12)}
        client = self.handshake(proxy, own=SNI, **only)
        client.request('GET', '/')
        self.assertEqual(['sni.example.com'], json.loads(
            client.getresponse().read())['headers']['x-ssl-client-cn'])
        for own in (None, DEFAULT):
            self.assertRaises(ssl.SSLError, self.handshake, proxy, own=own,
                              **only)


    def test_tickets_resume_a_session_on_another_node(self):
        only = {'versions': (TLS12, TLS12)}
        secrets = {name: bundles.make('default.example.com')
                   for name in (DEFAULT, SNI)}
        first, second = (self.terminated(secrets) for _ in range(2))
        before = self.handshake(first, **only)
        client = self.handshake(second, before=before)
        self.assertTrue(client.sock.session_reused)

    def test_session_outlasts_one_new_key_of_tickets_and_not_two(self):
        only = {'versions': (TLS12, TLS12)}
        secrets = {name: bundles.make('default.example.com')
                   for name in (DEFAULT, SNI)}
        keys = [bundle.tickets()]
        for _ in range(2):
            keys.append(bundle.tickets(keys[-1]))
        before, later, last = (
            self.terminated(secrets, tickets=made.pem.decode())
            for made in keys)
        session = self.handshake(before, **only)
        for proxy, resumed in ((before, True), (later, True), (last, False)):
            self.assertEqual(resumed, self.handshake(
                proxy, before=session).sock.session_reused)

    def test_members_are_checked_and_shown_a_certificate(self):
        secrets = {DEFAULT: bundles.make('default.example.com'),
                   SNI: bundles.make('sni.example.com')}
        member = self.terminated(
            secrets, client_ca_bundle=SNI, client_authentication='MANDATORY',
            insert_headers=['X-SSL-Client-CN'])
        for status, fields in (
                (200, {'ca_bundle': DEFAULT, 'tls_bundle': SNI}),
                (200, {'ca_bundle': DEFAULT, 'tls_bundle': SNI,
                       'crl_bundle': DEFAULT}),
                (200, {'tls_bundle': SNI}),
                # Another CA; no certificate for the member.
                (503, {'ca_bundle': SNI, 'tls_bundle': SNI}),
                (502, {'ca_bundle': DEFAULT})):
            document = documents.web(members={'tls': documents.member(
                '127.0.0.1', protocol_port=member.ports[WEB])})
            document['pools'][WEBS].update(tls_enabled=True, **fields)
            proxy = self.start(document, secrets=secrets)
            answer = self.get(proxy)
            self.assertEqual(status, answer[0], fields)


class TestDebian(Requests):
    program = haproxy.SYSTEM


class TestNewer(Requests):
    program = haproxy.other_version()


del Requests
