# SPDX-License-Identifier: Apache-2.0
"""Documents of proxied load balancers that are supported, and others."""

import json

from octavia_xdp_provider.api import proxied
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.tests.support import proxied as documents
from octavia_xdp_provider.tests.unit import base

CERTIFICATE = documents.bundle('certificate')
WEB, WEBS = documents.uuid_of('web'), documents.uuid_of('webs')


class TestCheck(base.TestCase):

    def assert_refused(self, option, document):
        error = self.assertRaises(errors.Refused, proxied.check, document)
        self.assertTrue(error.option.endswith(option), error.option)
        self.assertTrue(error.why)
        self.assertTrue(error.instead)
        return error

    def listener(self, pool=None, **fields):
        """Return a document with a listener and its pool."""
        return documents.document(
            {'web': documents.listener(**fields,
                                       **({'default_pool_id': WEBS}
                                          if pool else {}))},
            {'webs': documents.pool(**pool)} if pool else {})

    def test_supported_documents(self):
        tls = {'protocol': 'TERMINATED_HTTPS',
               'default_tls_bundle': CERTIFICATE}
        for document in (
                documents.web(insert_headers=['X-Forwarded-For']),
                self.listener(**tls, hsts_max_age=1,
                              insert_headers=['X-SSL-Issuer']),
                self.listener(protocol='TERMINATED_HTTPS',
                              sni_bundles=[CERTIFICATE]),
                self.listener(**tls, client_authentication='OPTIONAL',
                              client_ca_bundle=CERTIFICATE,
                              client_crl_bundle=CERTIFICATE),
                self.listener(protocol='PROMETHEUS'),
                self.listener(protocol='PROMETHEUS',
                              default_tls_bundle=CERTIFICATE),
                self.listener({'protocol': 'PROXYV2'}, protocol='HTTPS'),
                self.listener({'protocol': 'HTTP', 'session_persistence': {
                    'type': 'APP_COOKIE', 'cookie_name': 'JSESSIONID'}})):
            proxied.check(json.loads(json.dumps(document)))

    def test_refused_listeners(self):
        tls = {'protocol': 'TERMINATED_HTTPS'}
        for option, fields in (
                ('insert_headers', {'protocol': 'TCP',
                                    'insert_headers': ['X-Forwarded-For']}),
                ('insert_headers', {'insert_headers': ['X-SSL-Issuer']}),
                ('l7policies', {'protocol': 'HTTPS',
                                'policies': {'a': documents.policy()}}),
                ('l7policies', {'protocol': 'PROMETHEUS',
                                'policies': {'a': documents.policy()}}),
                ('default_tls_container_ref', tls),
                ('default_tls_container_ref', {
                    'default_tls_bundle': CERTIFICATE}),
                ('default_tls_container_ref', {
                    'protocol': 'TCP', 'sni_bundles': [CERTIFICATE]}),
                ('default_tls_container_ref', {
                    'client_ca_bundle': CERTIFICATE}),
                ('client_authentication', {
                    **tls, 'default_tls_bundle': CERTIFICATE,
                    'client_authentication': 'MANDATORY'}),
                ('client_crl_container_ref', {
                    **tls, 'default_tls_bundle': CERTIFICATE,
                    'client_crl_bundle': CERTIFICATE}),
                ('hsts_max_age', {'hsts_max_age': 1}),
                ('tls_ciphers', {'tls_ciphers': 'a b'}),
                ('tls_versions', {'tls_versions': []}),
                # Values that the types refuse.
                ('insert_headers.0', {'insert_headers': ['X-Evil: a']}),
                ('alpn_protocols.0', {'alpn_protocols': ['spdy']}),
                ('default_tls_bundle', {'default_tls_bundle': '../key'}),
                ('protocol', {'protocol': 'UDP'})):
            self.assert_refused(f'{WEB}.{option}', self.listener(**fields))

    def test_refused_pools(self):
        for option, fields in (
                ('session_persistence', {'session_persistence': {
                    'type': 'APP_COOKIE', 'cookie_name': None}}),
                ('session_persistence', {'session_persistence': {
                    'type': 'APP_COOKIE', 'cookie_name': 'a;b'}}),
                ('session_persistence', {'session_persistence': {
                    'type': 'HTTP_COOKIE', 'cookie_name': 'a'}}),
                ('crl_container_ref', {'crl_bundle': CERTIFICATE}),
                ('tls_ciphers', {'tls_ciphers': "a'"}),
                ('tls_versions', {'tls_versions': ['SSLv3']})):
            self.assert_refused(f'{WEBS}.{option}', documents.document(
                pools={'webs': documents.pool(**fields)}))

    def test_pools_that_a_listener_cannot_use(self):
        cookie = {'type': 'HTTP_COOKIE', 'cookie_name': None}
        for protocol, pool in (
                ('HTTP', {'protocol': 'TCP'}),
                ('TERMINATED_HTTPS', {'protocol': 'HTTPS'}),
                ('HTTPS', {'protocol': 'HTTP'}),
                ('PROMETHEUS', {'protocol': 'HTTP'}),
                ('TCP', {'protocol': 'TCP', 'session_persistence': cookie}),
                ('TCP', {'protocol': 'PROXY', 'session_persistence': cookie})):
            tls = ({'default_tls_bundle': CERTIFICATE}
                   if protocol == 'TERMINATED_HTTPS' else {})
            self.assert_refused(f'{WEB}.default_pool_id', self.listener(
                pool, protocol=protocol, **tls))

    def test_unknown_pools_are_refused(self):
        self.assert_refused('default_pool_id', self.listener(
            default_pool_id=WEBS))
        self.assert_refused('redirect_pool_id', self.listener(
            policies={'a': documents.policy(
                'REDIRECT_TO_POOL', redirect_pool_id=WEBS)}))

    def test_rules_and_policies_are_named_by_their_path(self):
        error = self.assert_refused('.value', documents.web(
            {'policy': documents.policy(rules={
                'rule': documents.rule(value='a\nb', compare_type='REGEX')})}))
        self.assertEqual(
            f'listeners.{WEB}.l7policies.{documents.uuid_of("policy")}.rules.'
            f'{documents.uuid_of("rule")}.value', error.option)
        self.assert_refused('.redirect_url', documents.web(
            {'policy': documents.policy('REDIRECT_TO_URL')}))

    def test_ids_that_are_no_uuids_and_newer_versions_are_refused(self):
        document = documents.web()
        document['listeners']["x'\n"] = document['listeners'].pop(WEB)
        self.assertRaises(errors.Refused, proxied.check, document)
        error = self.assert_refused('version', documents.document(version=2))
        self.assertIn('newer', error.why)
