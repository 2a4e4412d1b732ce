# SPDX-License-Identifier: Apache-2.0
"""Every option is either done or refused by name; none is ignored."""

import ipaddress

from octavia_lib.api.drivers import data_models

from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import translate
from octavia_xdp_provider.driver import support
from octavia_xdp_provider.tests.unit import base

LIMITS = support.Limits(
    (ipaddress.ip_network('203.0.113.0/24'),),
    (ipaddress.ip_network('127.0.0.0/8'),
     ipaddress.ip_network('169.254.0.0/16')))

MODELS = {
    'loadbalancer': data_models.LoadBalancer,
    'listener': data_models.Listener,
    'pool': data_models.Pool,
    'member': data_models.Member,
    'healthmonitor': data_models.HealthMonitor,
}

# One value for every option that is refused, whatever its value.
REFUSED = {
    'loadbalancer': {
        'vip_qos_policy_id': 'x', 'vip_sg_ids': ['x'],
        'additional_vips': [{'ip_address': '203.0.113.11'}],
        'availability_zone': {'compute_zone': 'x'}, 'flavor': {'x': 1},
        'vip_address': '192.0.2.1'},
    'listener': {
        'connection_limit': 10, 'allowed_cidrs': ['10.0.0.0/8'],
        'timeout_client_data': 1, 'timeout_member_connect': 1,
        'timeout_member_data': 1, 'timeout_tcp_inspect': 1,
        'insert_headers': {'X-Forwarded-For': 'true'},
        'l7policies': ['x'], 'default_tls_container_ref': 'x',
        'default_tls_container_data': 'x', 'sni_container_refs': ['x'],
        'sni_container_data': ['x'], 'client_ca_tls_container_ref': 'x',
        'client_ca_tls_container_data': 'x',
        'client_authentication': 'MANDATORY',
        'client_crl_container_ref': 'x', 'client_crl_container_data': 'x',
        'tls_versions': ['TLSv1.2'], 'tls_ciphers': 'x',
        'alpn_protocols': ['h2'], 'hsts_max_age': 5,
        'hsts_include_subdomains': True, 'hsts_preload': True,
        'protocol': 'TERMINATED_HTTPS'},
    'pool': {
        'session_persistence': {'type': 'SOURCE_IP'}, 'tls_enabled': True,
        'tls_container_ref': 'x', 'tls_container_data': 'x',
        'ca_tls_container_ref': 'x', 'ca_tls_container_data': 'x',
        'crl_container_ref': 'x', 'crl_container_data': 'x',
        'tls_versions': ['TLSv1.2'], 'tls_ciphers': 'x',
        'alpn_protocols': ['h2'], 'lb_algorithm': 'ROUND_ROBIN',
        'protocol': 'HTTP'},
    'member': {
        'backup': True, 'vnic_type': 'direct', 'weight': 0,
        'address': '127.0.0.1', 'monitor_address': '169.254.169.254'},
    'healthmonitor': {'type': 'MAGIC', 'http_version': 2.0, 'delay': 0,
                      'timeout': 0, 'expected_codes': '99'},
}


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
                    MODELS[kind](**{name: value}), LIMITS)
                self.assertEqual(name, error.option)
                self.assertIn(repr(name), str(error))
                self.assertTrue(error.instead)

    def test_every_refusing_rule_is_tried(self):
        for kind, rules in support.SUPPORT.items():
            refusing = {name for name, rule in rules.items()
                        if isinstance(rule, support.Refuse)
                        or rule.check is not None}
            self.assertEqual(refusing, set(REFUSED[kind]), kind)

    def test_an_unknown_option_is_refused(self):
        error = self.assertRaises(
            errors.Refused, support.check, 'member',
            {'member_id': 'x', 'shiny_new': 'y'}, LIMITS)
        self.assertEqual('shiny_new', error.option)

    def test_what_clients_send_by_default_is_accepted(self):
        support.check('listener', data_models.Listener(
            connection_limit=-1, timeout_client_data=50000,
            timeout_member_connect=5000, timeout_member_data=50000,
            timeout_tcp_inspect=0, insert_headers={}, l7policies=[],
            client_authentication='NONE', allowed_cidrs=None,
            hsts_include_subdomains=False, protocol='UDP'), LIMITS)
        support.check('member', data_models.Member(
            address='198.18.10.11', backup=False, vnic_type='normal',
            weight=256), LIMITS)

    def test_children_are_checked(self):
        pool = data_models.Pool(members=[
            data_models.Member(address='198.18.10.11'),
            data_models.Member(address='127.0.0.1')])
        for parent, given in (
                ('loadbalancer', data_models.LoadBalancer(pools=[pool])),
                ('listener', data_models.Listener(default_pool=pool)),
                ('listener', {'default_pool': pool.to_dict(recurse=True)})):
            error = self.assertRaises(errors.Refused, support.check, parent,
                                      given, LIMITS)
            self.assertEqual('address', error.option)

    def test_ipv6_is_refused(self):
        for kind, name in (('loadbalancer', 'vip_address'),
                           ('member', 'address')):
            self.assertRaises(errors.Refused, support.check, kind,
                              {name: '2001:db8::1'}, LIMITS)

    def test_flavor(self):
        self.assertIsNone(support.flavor({'replicas': 2}, None))
        self.assertIsNone(support.flavor(None, None))
        for bad in ({'replicas': 0}, {'replicas': 'two'},
                    {'replicas': True}, {'color': 'red'}):
            self.assertIsNotNone(support.flavor(bad, None))


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

    def test_objects_and_dictionaries_give_the_same(self):
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
