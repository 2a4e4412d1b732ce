# SPDX-License-Identifier: Apache-2.0
"""Which tier serves a listener, and what nodes of each are sent."""

import unittest

from octavia_xdp_provider.api import proxied
from octavia_xdp_provider.api import validation
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import proxy_spec
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import tiers
from octavia_xdp_provider.contracts import views

_ID = '5a0c5f0e-0000-4000-8000-{:012}'
_LB, _HTTP, _UDP, _POOL, _OTHER, _MEMBER = (
    _ID.format(number) for number in range(6))
_NODES = {'proxy1': {'addresses': ['198.51.100.7', '2001:db8:1::7'],
                     'weight': 1},
          'proxy2': {'addresses': ['198.51.100.8'], 'weight': 0}}


def _document(listener=None, pool=None, flavor=None, vip='203.0.113.10'):
    """Return a load balancer with one listener of TCP."""
    return spec.document(_LB, {
        'vip_address': vip, 'flavor': flavor or {},
        'listeners': {_HTTP: {
            'protocol': 'TCP', 'protocol_port': 80, 'default_pool_id': _POOL,
            **(listener or {})}},
        'pools': {_POOL: {
            'protocol': 'TCP', 'lb_algorithm': 'SOURCE_IP_PORT',
            'members': {_MEMBER: {'address': '198.18.10.11',
                                  'protocol_port': 8080}}, **(pool or {})}}})


def _http():
    """Return a load balancer with listeners of HTTP and UDP."""
    document = _document({'protocol': 'HTTP',
                          'insert_headers': ['X-Forwarded-For'],
                          'allowed_cidrs': ['192.0.2.0/24'],
                          'connection_limit': 100},
                         {'protocol': 'HTTP', 'lb_algorithm': 'ROUND_ROBIN'})
    document['listeners'][_UDP] = spec.with_defaults('listener', {
        'protocol': 'UDP', 'protocol_port': 53, 'default_pool_id': _OTHER,
        'timeout_tcp_inspect': 5})
    document['pools'][_OTHER] = spec.complete_pool({
        'protocol': 'UDP', 'lb_algorithm': 'SOURCE_IP'})
    return document


class TestTier(unittest.TestCase):
    """Causes, by the option that the user or the operator gave."""

    def test_causes(self):
        by_hash = {'algorithms_served_by_hash': ['ROUND_ROBIN']}
        cases = [
            ({}, {}, {}, None),
            ({'protocol': 'HTTP'}, {'protocol': 'HTTP'}, {},
             ('protocol', 'HTTP')),
            ({'protocol': 'PROMETHEUS', 'default_pool_id': None}, {}, {},
             ('protocol', 'PROMETHEUS')),
            ({'protocol': 'HTTPS'}, {'protocol': 'HTTPS'}, {}, None),
            ({}, {'protocol': 'PROXYV2'}, {}, ('protocol', 'PROXYV2')),
            ({}, {'tls_enabled': True}, {}, ('tls_enabled', True)),
            ({}, {'session_persistence': {'type': 'HTTP_COOKIE'}}, {},
             ('session_persistence', 'HTTP_COOKIE')),
            ({}, {'session_persistence': {'type': 'SOURCE_IP'}}, {}, None),
            ({}, {'lb_algorithm': 'ROUND_ROBIN'}, {},
             ('lb_algorithm', 'ROUND_ROBIN')),
            ({}, {'lb_algorithm': 'ROUND_ROBIN'}, by_hash, None),
            ({}, {'lb_algorithm': 'LEAST_CONNECTIONS'}, by_hash,
             ('lb_algorithm', 'LEAST_CONNECTIONS')),
            ({}, {'lb_algorithm': 'ROUND_ROBIN'}, {'forwarding': 'tunnel'},
             None),
            ({'connection_limit': 5}, {}, {}, ('connection_limit', 5)),
            ({'connection_limit': 5}, {}, {'forwarding': 'nat'}, None),
            ({}, {}, {'forwarding': 'proxy'}, ('forwarding', 'proxy')),
            ({'protocol': 'UDP'},
             {'protocol': 'UDP', 'lb_algorithm': 'ROUND_ROBIN'}, {}, None),
            ({'protocol': 'SCTP', 'connection_limit': 5},
             {'protocol': 'SCTP'}, {'forwarding': 'proxy'}, None),
            ({'timeout_member_connect': 1, 'timeout_tcp_inspect': 1}, {}, {},
             None),
            ({}, {'lb_algorithm': 'ROUND_ROBIN'},
             {'zero_touch': 'preferred'}, None)]
        for listener, pool, flavor, expected in cases:
            with self.subTest(listener=listener, pool=pool, flavor=flavor):
                document = _document(listener, pool, flavor)
                self.assertEqual(expected, tiers.cause(
                    document, document['listeners'][_HTTP]))
                self.assertEqual(expected is not None,
                                 tiers.needs_proxies(document))

    def test_pools_of_policies_are_looked_at(self):
        document = _document({'l7policies': {_OTHER: spec.with_defaults(
            'l7policy', {'action': 'REDIRECT_TO_POOL', 'position': 1,
                         'redirect_pool_id': _OTHER})}})
        document['pools'][_OTHER] = spec.complete_pool({
            'protocol': 'PROXY', 'lb_algorithm': 'SOURCE_IP'})
        self.assertEqual([_HTTP], tiers.proxied_listeners(document))
        self.assertEqual({_POOL, _OTHER}, tiers.pool_ids(document, True))


class TestViews(unittest.TestCase):
    """Each tier's part of a document."""

    def test_document_of_layer_4_is_sent_unchanged(self):
        document = _document()
        self.assertIs(document, views.for_lb_node(document))

    def test_fields_of_layer_7_are_not_sent_to_lb_nodes(self):
        view = views.for_lb_node(_document(
            {'timeout_member_connect': 5, 'tls_versions': ['TLSv1.3']},
            {'tls_ciphers': 'AES'}))
        self.assertEqual(_document(), view)

    def test_lb_nodes_lack_a_listener_that_no_proxy_serves(self):
        document = _http()
        view = views.for_lb_node(document)
        self.assertEqual({_UDP}, view['listeners'].keys())
        self.assertEqual({_OTHER}, view['pools'].keys())
        document['proxies'] = {'nodes': _NODES, 'listeners': []}
        self.assertEqual(view, views.for_lb_node(document))

    def test_proxy_nodes_are_the_members_at_lb_nodes(self):
        document = _http()
        document['proxies'] = {'nodes': _NODES, 'listeners': [_HTTP]}
        view = views.for_lb_node(document)
        validation.validate(view)
        listener = view['listeners'][_HTTP]
        self.assertEqual(('TCP', 80, ['192.0.2.0/24'], None), (
            listener['protocol'], listener['protocol_port'],
            listener['allowed_cidrs'], listener['connection_limit']))
        pool = view['pools'][listener['default_pool_id']]
        self.assertNotIn(_POOL, view['pools'])
        self.assertEqual({('198.51.100.7', 1), ('198.51.100.8', 0)}, {
            (member['tunnel']['address'], member['weight'])
            for member in pool['members'].values()})
        self.assertEqual({proxy_spec.HEALTH_PORT}, {
            member['monitor_port'] for member in pool['members'].values()})

    def test_tunnels_prefer_the_family_of_the_vip(self):
        document = _http()
        document['vip_address'] = '2001:db8:100::10'
        document['listeners'][_HTTP]['allowed_cidrs'] = None
        document['proxies'] = {'nodes': _NODES, 'listeners': [_HTTP]}
        pool = views.for_lb_node(document)['pools'][
            views.proxy_pool_id(_HTTP)]
        self.assertEqual({'2001:db8:1::7', '198.51.100.8'}, {
            member['tunnel']['address']
            for member in pool['members'].values()})

    def test_proxies_get_what_they_serve(self):
        document = _http()
        document['proxies'] = {'nodes': _NODES, 'listeners': [_HTTP]}
        view = views.for_proxy(document)
        proxied.check(view)
        self.assertEqual(['proxy1', 'proxy2'], view['nodes'])
        self.assertEqual({_HTTP}, view['listeners'].keys())
        self.assertEqual({_POOL}, view['pools'].keys())
        self.assertEqual(['X-Forwarded-For'],
                         view['listeners'][_HTTP]['insert_headers'])
        self.assertEqual(100, view['listeners'][_HTTP]['connection_limit'])
        self.assertEqual({}, views.for_proxy(_document())['listeners'])

    def test_flavor_keys_of_proxies_are_sent_to_proxy_nodes_only(self):
        keys = {'proxy_connections': 5, 'proxy_threads': 2,
                'proxy_memory': 64, 'proxy_stop_after': 9}
        document = {**_document(), 'flavor': {
            **keys, 'replicas': 2, 'encapsulation': 'gue'}}
        view = views.for_proxy(document)
        proxied.check(view)
        self.assertEqual(keys, view['flavor'])
        self.assertEqual(
            {'replicas': 2, 'encapsulation': 'gue'},
            spec.for_node(views.for_lb_node(document))['flavor'])
        for key, wrong in (('proxy_threads', 65), ('replicas', 2)):
            with self.assertRaisesRegex(errors.Refused, f'flavor.*{key}'):
                proxied.check({**view, 'flavor': {key: wrong}})
        document['flavor'] = {'replicas': 2}
        self.assertNotIn('flavor', views.for_proxy(document))
