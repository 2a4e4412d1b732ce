# SPDX-License-Identifier: Apache-2.0
"""Layer 7 through Octavia's own API: the documents have what Octavia has."""

from octavia_xdp_provider.tests.functional.support import own_process
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.bundles import certificates

# Not imported, as it loads Octavia.
API = 'octavia_xdp_provider.tests.functional.support.layer_7_api'

PATH = {'type': 'PATH', 'compare_type': 'STARTS_WITH', 'value': '/images'}


def rejecting(**rule):
    """Return a listener that rejects what a rule matches."""
    return {'l7policies': [{'action': 'REJECT', 'rules': [{**PATH, **rule}]}]}


class TestLayer7(base.TestCase):

    def test_policies_of_a_new_load_balancer_reach_the_controllers(self):
        listener = own_process.call(API, 'create', {
            'default_pool': {'name': 'webs'}, 'l7policies': [
                {'action': 'REDIRECT_TO_POOL',
                 'redirect_pool': {'name': 'images'},
                 'rules': [PATH, {
                     'type': 'HEADER', 'compare_type': 'EQUAL_TO',
                     'key': 'X-Kind', 'value': 'image', 'invert': True}]},
                {'action': 'REDIRECT_TO_URL', 'position': 1,
                 'redirect_url': 'https://example.com/?a=1&b=2'}]})
        self.assertEqual(
            {1: ('REDIRECT_TO_URL', 0), 2: ('REDIRECT_TO_POOL', 2)},
            {policy['position']: (policy['action'], len(policy['rules']))
             for policy in listener['l7policies'].values()})

    def test_what_a_new_load_balancer_cannot_have_is_refused_by_name(self):
        for (status, text), name in zip(own_process.call(API, 'refuse', [
                rejecting(compare_type='REGEX', value='(?a)x'),
                rejecting(type='COOKIE', key='a\'b'),
                rejecting(value='/a\x7f'),
                {'protocol': 'TCP', **rejecting()},
                {'protocol_port': 65535}]), (
                    'value', 'key', 'value', 'l7policies', 'protocol_port'),
                strict=True):
            self.assertIn(name, text)
            self.assertIn(status, (400, 501))

    def test_changes_of_listeners_and_pools(self):
        own_process.call(API, 'update', [
            {'insert_headers': {'X-Forwarded-For': 'true',
                                'X-Forwarded-Port': 'false'},
             'connection_limit': 7},
            {'insert_headers': {'X-Forwarded-Proto': 'true'}},
            {'insert_headers': None, 'connection_limit': None},
            {'timeout_tcp_inspect': 5, 'timeout_member_connect': 100},
            {'timeout_member_connect': None}], [
            {'session_persistence': {'type': 'APP_COOKIE',
                                     'cookie_name': 'JSESSIONID'}},
            {'session_persistence': {'type': 'HTTP_COOKIE'}},
            {'session_persistence': None},
            {'tls_enabled': True, 'tls_versions': ['TLSv1.3']},
            {'tls_enabled': False, 'tls_ciphers': None}])

    def test_certificates_are_named_and_sealed(self):
        listener, pool, hosts = own_process.call(API, 'certify', {
            name: certificates.made(name=name)
            for name in ('a.example', 'b.example', 'c.example')}, {
                'default_tls_container_ref': 'b.example',
                'sni_container_refs': ['c.example', 'a.example'],
                'alpn_protocols': ['h2'], 'hsts_max_age': 60}, {
                    'tls_enabled': True, 'tls_container_ref': 'a.example'})
        self.assertEqual(60, listener['hsts_max_age'])
        for expected, name in (
                ('b.example', listener['default_tls_bundle']),
                ('a.example', pool['tls_bundle'])):
            self.assertEqual([expected, f'www.{expected}'], hosts[name])
        self.assertEqual({'a.example', 'c.example'}, {
            hosts[name][0] for name in listener['sni_bundles']})

    def test_certificates_for_further_names_of_new_listeners_are_sealed(self):
        """Octavia passes on their references at most."""
        names = ['a.example', 'b.example', 'c.example']
        self.assertEqual([names[1:]] * 2, own_process.call(
            API, 'certify_new', {
                name: certificates.made(name=name) for name in names}, {
                    'protocol': 'TERMINATED_HTTPS',
                    'default_tls_container_ref': names[0],
                    'sni_container_refs': names[1:]}))

    def test_any_changes_of_policies_and_rules(self):
        own_process.call(API, 'change_anything', form.repeats(60, 600), 7)
