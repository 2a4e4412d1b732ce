# SPDX-License-Identifier: Apache-2.0
"""Every option is either supported or refused by name; none is ignored."""

import dataclasses
import subprocess
import sys

from octavia_lib.api.drivers import data_models
from octavia_lib.common import constants
from oslo_config import cfg
from oslo_config import fixture

from octavia_xdp_provider.api import translate
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.driver import octavia_defaults
from octavia_xdp_provider.driver import support
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.driver import policies

MODELS = {
    'loadbalancer': data_models.LoadBalancer,
    'listener': data_models.Listener,
    'pool': data_models.Pool,
    'member': data_models.Member,
    'healthmonitor': data_models.HealthMonitor,
    'l7policy': data_models.L7Policy,
    'l7rule': data_models.L7Rule,
}

# One value for every option that is refused, whatever its value.
REFUSED = {
    'loadbalancer': {
        'vip_qos_policy_id': 'x', 'vip_sg_ids': ['x'],
        'additional_vips': [{'ip_address': '192.0.2.11'}],
        'availability_zone': {'compute_zone': 'x'}, 'flavor': {'x': 1},
        'vip_address': '192.0.2.1'},
    'listener': {
        'connection_limit': 0, 'allowed_cidrs': ['::ffff:10.0.0.0/104'],
        'insert_headers': {'X-Powered-By': 'true'},
        'tls_versions': ['TLSv1.1', 'TLSv1.3'], 'tls_ciphers': 'no\ncipher',
        'alpn_protocols': ['spdy'], 'protocol': 'PROXY'},
    'pool': {
        'session_persistence': {'type': 'APP_COOKIE', 'cookie_name': 'a b'},
        'tls_versions': ['SSLv3'], 'tls_ciphers': 'UNHEARD-OF',
        'alpn_protocols': ['spdy'], 'lb_algorithm': 'LEAST_BANDWIDTH',
        'protocol': 'TERMINATED_HTTPS'},
    'member': {
        'vnic_type': 'direct', 'subnet_id': 'name',
        'address': '127.0.0.1', 'monitor_address': '169.254.169.254'},
    'healthmonitor': {'type': 'MAGIC', 'http_version': 2.0, 'delay': 0,
                      'timeout': 0, 'expected_codes': '99',
                      'url_path': '/ä', 'domain_name': 'ä',
                      'http_method': 'DELETE'},
    'l7policy': {'action': 'TEAPOT', 'redirect_url': 'ftp://192.0.2.1/',
                 'redirect_prefix': 'https://example.com/\n'},
    'l7rule': {'type': 'MOON', 'compare_type': 'LOOKS_LIKE', 'value': 'a\nb'},
}

# Fields that only listeners of some protocols have.
TLS = {
    'default_tls_container_ref': 'x', 'default_tls_container_data': 'x',
    'sni_container_refs': ['x'], 'sni_container_data': ['x'],
    'client_ca_tls_container_ref': 'x', 'client_ca_tls_container_data': 'x',
    'client_authentication': 'MANDATORY', 'client_crl_container_ref': 'x',
    'client_crl_container_data': 'x', 'tls_versions': ['TLSv1.2'],
    'tls_ciphers': 'ECDHE-RSA-AES128-GCM-SHA256', 'alpn_protocols': ['h2']}
HSTS = {'hsts_max_age': 5, 'hsts_include_subdomains': True,
        'hsts_preload': True}
HTTP = {'insert_headers': {'X-Forwarded-For': 'true'},
        'l7policies': [data_models.L7Policy(action='REJECT')]}


class TestSupport(base.TestCase):

    def test_every_attribute_of_octavia_is_in_the_table(self):
        for kind, model in MODELS.items():
            self.assertEqual(set(vars(model())), set(support.SUPPORT[kind]),
                             kind)

    def test_refused_options_are_named(self):
        for kind, options in REFUSED.items():
            for name, value in options.items():
                error = self.assertRaises(
                    errors.Refused, support.check, kind,
                    MODELS[kind](**{name: value}), policies.POLICY)
                self.assertEqual(name, error.option)
                self.assertIn(repr(name), str(error))
                self.assertTrue(error.instead)

    def test_every_refusing_rule_is_tested(self):
        for kind, rules in support.SUPPORT.items():
            refusing = {name for name, rule in rules.items()
                        if isinstance(rule, support.Refuse)
                        or getattr(rule, 'check', None) is not None}
            self.assertEqual(refusing, set(REFUSED[kind]), kind)

    def test_unknown_option_is_refused(self):
        error = self.assertRaises(
            errors.Refused, support.check, 'member',
            {'member_id': 'x', 'shiny_new': 'y'}, policies.POLICY)
        self.assertEqual('shiny_new', error.option)

    def test_clients_defaults_are_accepted(self):
        support.check('listener', data_models.Listener(
            connection_limit=-1, timeout_client_data=50000,
            timeout_member_connect=5000, timeout_member_data=50000,
            timeout_tcp_inspect=0, insert_headers={}, l7policies=[],
            client_authentication='NONE', allowed_cidrs=None,
            hsts_include_subdomains=False, protocol='UDP'), policies.POLICY)
        support.check('pool', data_models.Pool(tls_enabled=False),
                      policies.POLICY)
        support.check('member', data_models.Member(
            address='198.18.10.11', backup=False, vnic_type='normal',
            weight=1), policies.POLICY)

    def test_octavias_defaults_for_null_are_accepted(self):
        """Horizon sends tls_ciphers null with each change of a listener."""
        policy = dataclasses.replace(policies.POLICY, octavia_defaults={
            'default_listener_ciphers': 'A:B',
            'default_listener_alpn_protocols': ['h2']})
        support.check('listener', data_models.Listener(
            tls_ciphers='A:B', alpn_protocols=['h2']), policy, 'TCP')
        for option, value in (
                ('tls_ciphers', 'A'), ('tls_versions', ['TLSv1.2']),
                ('alpn_protocols', ['h2', 'http/1.1'])):
            error = self.assertRaises(
                errors.Refused, support.check, 'listener',
                data_models.Listener(**{option: value}), policy, 'TCP')
            self.assertEqual(option, error.option)

    def test_options_without_meaning_for_the_protocol_are_refused(self):
        for options, protocols, others in (
                (TLS, ('TERMINATED_HTTPS', 'PROMETHEUS'), ('HTTP', 'TCP')),
                (HSTS, ('TERMINATED_HTTPS',), ('PROMETHEUS', 'HTTPS')),
                (HTTP, ('HTTP', 'TERMINATED_HTTPS'), ('TCP', 'PROMETHEUS'))):
            for name, value in options.items():
                for protocol in protocols:
                    self.assertIsNone(self.check('listener', **{
                        name: value}, protocol=protocol))
                for protocol in others:
                    problem = self.check('listener', **{name: value},
                                         protocol=protocol)
                    self.assertEqual(name, problem[0])
                    self.assertIn(f'protocol {protocol}', problem[1])
                    # In a change, which does not name the protocol.
                    error = self.assertRaises(
                        errors.Refused, support.check, 'listener',
                        data_models.Listener(**{name: value}),
                        policies.POLICY, protocol)
                    self.assertEqual(name, error.option)

    def test_defaults_are_read_from_octavias_configuration(self):
        self.useFixture(fixture.Config()).register_opts([
            cfg.StrOpt('default_listener_ciphers', default='X:Y'),
            cfg.ListOpt('default_listener_tls_versions', default=['TLSv1.3']),
        ], group='api_settings')
        self.assertEqual({'default_listener_ciphers': 'X:Y',
                          'default_listener_tls_versions': ['TLSv1.3']},
                         octavia_defaults.read())

    def test_every_default_is_an_option_of_octavia(self):
        script = (
            'from octavia.common import config\n'
            'from octavia_xdp_provider.driver import octavia_defaults\n'
            'print(len(octavia_defaults.read()))')
        printed = subprocess.run([sys.executable, '-c', script], check=True,
                                 capture_output=True, text=True).stdout
        self.assertEqual('3', printed.split()[-1])

    def test_children_are_checked_like_single_objects(self):
        pool = data_models.Pool(members=[
            data_models.Member(address='198.18.10.11'),
            data_models.Member(address='127.0.0.1')])
        for parent, given in (
                ('loadbalancer', data_models.LoadBalancer(pools=[pool])),
                ('listener', data_models.Listener(default_pool=pool)),
                ('listener', {'default_pool': pool.to_dict(recurse=True)})):
            error = self.assertRaises(errors.Refused, support.check, parent,
                                      given, policies.POLICY)
            self.assertEqual('address', error.option)
        listener = data_models.Listener(l7policies=[data_models.L7Policy(
            rules=[data_models.L7Rule(value='a\0')])])
        error = self.assertRaises(
            errors.Refused, support.check, 'loadbalancer',
            data_models.LoadBalancer(listeners=[listener]), policies.POLICY)
        self.assertEqual('value', error.option)

    def check(self, kind, **options):
        """Return None, or the refused option and the operator's text."""
        try:
            support.check(kind, MODELS[kind](**options), policies.POLICY)
        except errors.Refused as refused:
            return refused.option, refused.for_operator
        return None

    def refused(self, word, kind, **options):
        option, = options
        problem = self.check(kind, **options)
        self.assertIsNotNone(problem, options)
        self.assertEqual(option, problem[0])
        self.assertIn(word, problem[1])

    def test_all_protocols_of_octavia_are_accepted(self):
        listeners = ('HTTP', 'HTTPS', 'PROMETHEUS', 'SCTP', 'TCP',
                     'TERMINATED_HTTPS', 'UDP')
        pools = ('HTTP', 'HTTPS', 'PROXY', 'PROXYV2', 'SCTP', 'TCP', 'UDP')
        self.assertEqual(set(listeners), set(
            constants.LISTENER_SUPPORTED_PROTOCOLS))
        self.assertEqual(set(pools), set(constants.POOL_SUPPORTED_PROTOCOLS))
        for kind, protocols in (('listener', listeners), ('pool', pools)):
            for protocol in protocols:
                self.assertIsNone(self.check(kind, protocol=protocol))

    def test_http_methods_with_effects_need_the_operators_consent(self):
        for method in ('GET', 'HEAD', 'OPTIONS', None):
            self.assertIsNone(self.check('healthmonitor',
                                         http_method=method))
        for method in ('DELETE', 'PUT', 'POST', 'PATCH', 'TRACE', 'CONNECT'):
            self.refused(method, 'healthmonitor', http_method=method)
        allowed = dataclasses.replace(policies.POLICY, http_methods=('POST',))
        support.check('healthmonitor',
                      data_models.HealthMonitor(http_method='POST'), allowed)

    def test_vips_of_both_families(self):
        for address in ('203.0.113.9', '2001:db8:100::9',
                        '2001:DB8:100:0::9'):
            self.assertIsNone(self.check('loadbalancer',
                                         vip_address=address))
        for address, word in (
                ('192.0.2.1', 'outside'), ('2001:db8:101::1', 'outside'),
                ('::ffff:203.0.113.9', 'use 203.0.113.9'),
                ('2001:db8:100::9%eth0', 'zone')):
            self.refused(word, 'loadbalancer', vip_address=address)

    def test_members_of_both_families(self):
        for name in ('address', 'monitor_address'):
            for address in ('198.18.10.11', '2001:db8::1'):
                self.assertIsNone(self.check('member', **{name: address}))
            for address, word in (
                    ('127.0.0.1', '127.0.0.0/8'), ('fe80::1', 'fe80::/10'),
                    # A way around the operator's list otherwise.
                    ('::ffff:127.0.0.1', 'use 127.0.0.1'),
                    ('::ffff:198.18.10.11', 'use 198.18.10.11'),
                    ('2001:db8::1%lo', 'zone')):
                self.refused(word, 'member', **{name: address})

    def test_session_persistence_has_the_fields_of_its_type(self):
        for given in (
                None, {}, {'type': 'SOURCE_IP'},
                {'type': 'SOURCE_IP', 'cookie_name': None,
                 'persistence_timeout': None,
                 'persistence_granularity': None},
                {'type': 'SOURCE_IP', 'persistence_timeout': 10,
                 'persistence_granularity': '255.255.255.0'},
                {'persistence_timeout': 16000,
                 'persistence_granularity': 'ffff:ffff:ffff:ffff::'},
                {'type': 'HTTP_COOKIE', 'cookie_name': None},
                {'type': 'APP_COOKIE', 'cookie_name': 'JSESSIONID'}):
            self.assertIsNone(self.check('pool', session_persistence=given))
        for given, word in (
                ({'type': 'BISCUIT'}, 'BISCUIT'),
                ({'type': 'HTTP_COOKIE', 'persistence_timeout': 10},
                 'HTTP_COOKIE'),
                ({'type': 'APP_COOKIE', 'cookie_name': 'a b'}, 'a b'),
                ({'type': 'SOURCE_IP', 'cookie_name': 'x'}, 'cookie_name'),
                ({'type': 'SOURCE_IP', 'shiny_new': 1}, 'shiny_new'),
                ({'persistence_timeout': 9}, 'persistence_timeout'),
                ({'persistence_timeout': 0}, 'persistence_timeout'),
                ({'persistence_timeout': 16001}, 'persistence_timeout'),
                ({'persistence_granularity': '255.0.255.0'},
                 'persistence_granularity'),
                ({'persistence_granularity': '0.0.0.0'},
                 'persistence_granularity'),
                ({'persistence_granularity': '2001:db8::1'},
                 'persistence_granularity')):
            self.refused(word, 'pool', session_persistence=given)

    def test_allowed_cidrs_are_networks_of_one_family(self):
        many = [f'10.{i // 256}.{i % 256}.0/24'
                for i in range(fields.ALLOWED_CIDRS_MAX + 1)]
        for given in (None, [], ['192.0.2.1/24'], ['0.0.0.0/0'], ['::/0'],
                      many[1:]):
            self.assertIsNone(self.check('listener', allowed_cidrs=given))
        self.refused('IPv4 network', 'listener',
                     allowed_cidrs=['192.0.2.0/24', '::ffff:192.0.2.0/120'])
        self.refused(str(len(many)), 'listener', allowed_cidrs=many)


class TestTranslate(base.TestCase):

    def tree(self):
        pool = data_models.Pool(
            pool_id='p', protocol='TCP', lb_algorithm='SOURCE_IP_PORT',
            members=[data_models.Member(member_id='m',
                                        address='198.18.10.11',
                                        protocol_port=80)],
            healthmonitor=data_models.HealthMonitor(
                healthmonitor_id='h', type='TCP', delay=1))
        listener = data_models.Listener(
            listener_id='l', protocol='TCP', protocol_port=80,
            default_pool=pool)
        return data_models.LoadBalancer(
            loadbalancer_id='lb', vip_address='203.0.113.9',
            listeners=[listener], pools=[pool])

    def test_objects_and_dictionaries_translate_alike(self):
        balancer = self.tree()
        tree = translate.load_balancer_tree(balancer)
        self.assertEqual(tree, translate.load_balancer_tree(
            balancer.to_dict(recurse=True)))
        self.assertEqual('p', tree['listeners']['l']['default_pool_id'])
        self.assertEqual({'m'}, set(tree['pools']['p']['members']))
        self.assertEqual('h', tree['pools']['p']['healthmonitor']['id'])

    def test_unset_is_left_out_and_null_is_kept(self):
        self.assertEqual({'weight': None}, translate.member(
            data_models.Member(weight=None)))

    def test_addresses_are_normalized(self):
        self.assertEqual(
            {'vip_address': '2001:db8::1'}, translate.load_balancer(
                data_models.LoadBalancer(vip_address='2001:DB8:0::1')))
        self.assertEqual(
            {'address': '2001:db8::1', 'monitor_address': '2001:db8::2'},
            translate.member(data_models.Member(
                address='2001:db8:0:0::1', monitor_address='2001:DB8::2')))
        self.assertEqual(
            {'address': None, 'monitor_address': None}, translate.member(
                data_models.Member(address=None, monitor_address=None)))

    def test_order_of_allowed_networks_does_not_matter(self):
        first, second = (
            translate.listener(data_models.Listener(allowed_cidrs=cidrs))
            for cidrs in (['198.51.100.7/24', '192.0.2.0/24'],
                          ['192.0.2.0/24', '198.51.100.0/24',
                           '192.0.2.0/24']))
        self.assertEqual(first, second)
        self.assertEqual(
            {'allowed_cidrs': ['192.0.2.0/24', '198.51.100.0/24']}, first)
        for empty in ([], None):
            self.assertEqual({'allowed_cidrs': None}, translate.listener(
                data_models.Listener(allowed_cidrs=empty)))
        self.assertEqual({}, translate.listener(data_models.Listener()))

    def test_session_persistence_keeps_its_own_fields(self):
        self.assertEqual(
            {'session_persistence': {'type': 'APP_COOKIE',
                                     'cookie_name': 'x'}},
            translate.pool({'session_persistence': {
                'type': 'APP_COOKIE', 'cookie_name': 'x', 'pool_id': 'p'}}))
        for empty in ({}, None):
            self.assertEqual({'session_persistence': None}, translate.pool(
                data_models.Pool(session_persistence=empty)))
        self.assertEqual({}, translate.pool(data_models.Pool()))
