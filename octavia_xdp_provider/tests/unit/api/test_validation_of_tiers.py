# SPDX-License-Identifier: Apache-2.0
"""Each listener is checked by the rules of the tier that serves it."""

from octavia_xdp_provider.api import validation
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import proxy_spec
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import views
from octavia_xdp_provider.tests.support import proxied
from octavia_xdp_provider.tests.unit import base

LB, WEB, WEBS, DNS, SERVERS, POLICY, MEMBER = (
    proxied.uuid_of(name) for name in (
        'load balancer', 'web', 'webs', 'dns', 'servers', 'policy', 'member'))
FLAVORS = ({}, {'encapsulation': 'gue', 'second_chance': True},
           {'encapsulation': 'dscp', 'dscp': 5}, {'forwarding': 'nat'},
           {'encapsulation': 'srv6'}, {'member_port': 'rewrite'},
           {'zero_touch': 'preferred'}, {'forwarding': 'proxy'})
# Only proxies can do this: ports, algorithm, cookies, other IP version.
PROXIED = {'protocol': 'HTTP', 'lb_algorithm': 'LEAST_CONNECTIONS',
           'session_persistence': {'type': 'HTTP_COOKIE'},
           'members': {MEMBER: base.member('2001:db8::11',
                                           protocol_port=8080)}}

WITHOUT_TOKENS = address_policy.AddressPolicy((), ())
WITH_TOKENS = address_policy.AddressPolicy((), (), has_tokens=True)


def document(listener=None, pool=None, flavor=None, **more):
    return spec.document(LB, base.tree(
        flavor=flavor or {}, listeners={WEB: {
            'protocol': 'HTTP', 'protocol_port': 80, 'default_pool_id': WEBS,
            'connection_limit': 100, **(listener or {})}},
        pools={WEBS: {**PROXIED, **(pool or {})}}, **more))


class TestTiers(base.TestCase):

    def refused(self, option, checked):
        error = self.assertRaises(errors.Refused, validation.validate,
                                  checked)
        self.assertTrue(error.option.endswith(option), error.option)
        self.assertTrue(error.instead)

    def test_proxied_listeners_are_free_of_the_rules_of_lb_nodes(self):
        for flavor in FLAVORS:
            with self.subTest(flavor=flavor):
                validation.validate(document(flavor=flavor))

    def test_proxies_do_not_serve_members_that_must_be_vms(self):
        required = {'zero_touch': 'required'}
        for option, listener, pool, flavor in (
                ('protocol', {}, {}, {}),
                ('protocol', {'protocol': 'TCP'}, {'protocol': 'PROXY'}, {}),
                ('forwarding', {'protocol': 'TCP'}, {'protocol': 'TCP'},
                 {'forwarding': 'proxy'})):
            with self.subTest(option=option, listener=listener):
                checked = document(
                    listener, {'session_persistence': None, **pool},
                    {**required, **flavor})
                error = self.assertRaises(
                    errors.Refused, validation.check_new_members, None,
                    checked, WITHOUT_TOKENS)
                self.assertEqual(option, error.option)
                validation.check_new_members(None, checked, WITH_TOKENS)
        validation.check_new_members(None, document(
            {'protocol': 'PROMETHEUS', 'default_pool_id': None},
            {'members': {}}, required), WITHOUT_TOKENS)

    def test_proxies_are_sent_only_members_that_have_their_address(self):
        for member, is_sent in (
                ({}, False), ({'way': 'none'}, False),
                ({'way': 'direct'}, True),
                ({'tunnel': {'address': '198.18.20.1', 'keys': {WEB: 7},
                             'encapsulation': 'geneve', 'mtu': 1442}},
                 False)):
            checked = document(flavor={'zero_touch': 'preferred'})
            checked['pools'][WEBS]['members'][MEMBER].update(member)
            with self.subTest(member=member):
                sent = views.for_proxy(checked)['pools'][WEBS]['members']
                self.assertEqual(is_sent, MEMBER in sent)

    def test_proxies_are_sent_tokens_of_members_behind_hypervisors(self):
        checked = document(flavor={'zero_touch': 'required'})
        tunnel = {'address': '198.18.20.1', 'encapsulation': 'geneve',
                  'key': 7}
        checked['pools'][WEBS]['members'][MEMBER].update({
            'address': '10.0.0.5', 'token': '100.64.0.1',
            'tunnel': {**tunnel, 'mtu': 1442}})
        validation.validate(checked)
        sent = views.for_proxy(checked)['pools'][WEBS]['members'][MEMBER]
        self.assertEqual(('10.0.0.5', '100.64.0.1', tunnel),
                         (sent['address'], sent['token'], sent['tunnel']))

    def test_lb_nodes_accept_what_they_are_sent(self):
        for flavor in FLAVORS:
            checked = document(flavor=flavor)
            checked['proxies'] = {'listeners': [WEB], 'nodes': {
                'proxy1': {'addresses': ['198.51.100.7'], 'weight': 1},
                'proxy2': {'addresses': ['198.51.100.8'], 'weight': 1}}}
            with self.subTest(flavor=flavor):
                sent = spec.for_node(views.for_lb_node(checked))
                self.assertEqual({WEB}, set(
                    validation.read(sent)['listeners']))

    def test_other_listeners_keep_the_rules_of_lb_nodes(self):
        checked = document()
        checked['listeners'][DNS] = spec.complete_listener({
            'protocol': 'UDP', 'protocol_port': 53,
            'default_pool_id': SERVERS})
        checked['pools'][SERVERS] = spec.complete_pool({
            'protocol': 'UDP', 'lb_algorithm': 'ROUND_ROBIN',
            'members': {MEMBER: base.member('198.18.10.11',
                                            protocol_port=53)}})
        validation.validate(checked)
        checked['pools'][SERVERS]['members'][MEMBER]['protocol_port'] = 5353
        self.refused('protocol_port', checked)
        checked['pools'][SERVERS]['members'] = {}
        checked['listeners'][DNS]['connection_limit'] = 10
        self.refused('connection_limit', checked)

    def test_rules_of_proxies_hold_for_proxied_listeners(self):
        for option, listener, pool in (
                ('default_tls_container_ref',
                 {'protocol': 'TERMINATED_HTTPS'}, {}),
                ('default_pool_id', {}, {'protocol': 'TCP'}),
                ('insert_headers', {'insert_headers': ['X-SSL-Issuer']}, {}),
                ('value', {'l7policies': {POLICY: {
                    'action': 'REJECT', 'position': 1, 'rules': {DNS: {
                        'type': 'PATH', 'compare_type': 'REGEX',
                        'value': '('}}}}}, {})):
            self.refused(option, document(listener, pool))

    def test_what_lb_nodes_do_for_proxied_listeners(self):
        self.refused('allowed_cidrs', document(
            {'allowed_cidrs': ['2001:db8::/32']}))
        self.refused('address', document(pool={'members': {
            MEMBER: base.member(base.VIP)}}))
        checked = document()
        checked['listeners'][DNS] = spec.complete_listener({
            'protocol': 'UDP', 'protocol_port': proxy_spec.HEALTH_PORT})
        validation.validate(checked)
        checked['listeners'][DNS]['protocol'] = 'TCP'
        self.refused('protocol_port', checked)
        del checked['listeners'][WEB]
        validation.validate(checked)

    def test_requests_are_read_for_no_other_protocol(self):
        policy = {POLICY: {'action': 'REJECT', 'position': 1}}
        for listener, pool in (
                ('TCP', {'lb_algorithm': 'SOURCE_IP'}),
                ('UDP', {}), ('TCP', {'protocol': 'PROXY'})):
            self.refused('l7policies', document(
                {'protocol': listener, 'l7policies': policy,
                 'connection_limit': None},
                {'protocol': listener, 'session_persistence': None, **pool}))

    def test_no_proxy_serves_packets(self):
        self.refused('tls_enabled', document(
            {'protocol': 'UDP', 'connection_limit': None},
            {'protocol': 'UDP', 'tls_enabled': True, 'members': {},
             'session_persistence': None}))
        self.refused('session_persistence', document(
            {'protocol': 'UDP', 'connection_limit': None},
            {'protocol': 'UDP', 'members': {}}))

    def test_unused_pools_are_checked_once_a_listener_uses_them(self):
        unused = {'listener': {'default_pool_id': None}}
        validation.validate(document(**unused))
        tcp = {'protocol': 'TCP', 'session_persistence': None}
        validation.validate(document(pool=tcp, **unused))
        self.refused('lb_algorithm', document(
            pool=tcp, flavor={'forwarding': 'tunnel'}, **unused))
