# SPDX-License-Identifier: Apache-2.0
"""Horizon's plugin (dashboard/), as far as it needs no Horizon."""

import typing

from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.tests.support import tools
from octavia_xdp_provider.tests.unit import base

_PLUGIN = 'dashboard/octavia_xdp_dashboard'
populated = tools.load_file(f'{_PLUGIN}/populated.py')
providers = tools.load_file(f'{_PLUGIN}/providers.py')

_WIZARD = {
    'loadbalancer': {'name': 'web', 'description': None, 'vip_address': '',
                     'vip_subnet_id': 'vips', 'admin_state_up': False,
                     'provider': 'xdp', 'unknown': 1},
    'listener': {'protocol': 'TCP', 'protocol_port': 80,
                 'connection_limit': -1, 'default_pool_id': None,
                 'timeout_tcp_inspect': 0, 'id': None},
    'pool': {'lb_algorithm': 'SOURCE_IP', 'protocol': 'TCP', 'id': None,
             'session_persistence': None, 'tls_enabled': False},
    'members': [{'address': '192.0.2.1', 'protocol_port': 80, 'weight': 0,
                 'subnet_id': 'members', 'id': 0, 'backup': False},
                {'address': '192.0.2.2', 'protocol_port': 80, 'id': 1}],
    'monitor': {'type': 'HTTP', 'delay': 5, 'timeout': 1, 'max_retries': 3,
                'max_retries_down': 3, 'url_path': '/', 'id': None},
}


# The lists of model.service.js of octavia-dashboard 18.0.0.
_OFFERED = {
    fields.ListenerProtocol: {
        'HTTP', 'TCP', 'TERMINATED_HTTPS', 'HTTPS', 'UDP', 'SCTP'},
    fields.PoolProtocol: {
        'HTTP', 'HTTPS', 'PROXY', 'PROXYV2', 'TCP', 'UDP', 'SCTP'},
    fields.Algorithm: {
        'LEAST_CONNECTIONS', 'ROUND_ROBIN', 'SOURCE_IP', 'SOURCE_IP_PORT'},
    fields.PersistenceType: {'SOURCE_IP', 'HTTP_COOKIE', 'APP_COOKIE'},
    fields.MonitorType: {'HTTP', 'HTTPS', 'PING', 'TCP', 'TLS-HELLO',
                         'UDP-CONNECT', 'SCTP'},
}


class TestOffers(base.TestCase):
    def test_provider_has_every_value_of_the_wizards_lists(self):
        # So the plugin need not change what the wizard offers.
        for accepted, offered in _OFFERED.items():
            self.assertLessEqual(offered, set(typing.get_args(accepted)))


class TestProviders(base.TestCase):
    def test_default_provider_is_another_one_unless_the_operator_says_so(self):
        self.assertEqual({'xdp'}, providers.names(None))
        self.assertEqual({'lb', 'fast', None}, providers.names(
            {'providers': ['lb', 'fast'], 'is_default_provider': True}))

    def test_unknown_setting_is_named(self):
        error = self.assertRaises(ValueError, providers.names,
                                  {'provider': 'xdp'})
        self.assertIn('OCTAVIA_XDP has no provider', str(error))


class TestOneRequest(base.TestCase):
    def test_wizard_sends_everything_in_one_request(self):
        self.assertEqual({
            'name': 'web', 'vip_subnet_id': 'vips', 'provider': 'xdp',
            'admin_state_up': False, 'project_id': 'project',
            'listeners': [{
                'protocol': 'TCP', 'protocol_port': 80,
                'connection_limit': -1, 'timeout_tcp_inspect': 0,
                'default_pool': {
                    'lb_algorithm': 'SOURCE_IP', 'protocol': 'TCP',
                    'tls_enabled': False,
                    'members': [
                        {'address': '192.0.2.1', 'protocol_port': 80,
                         'weight': 0, 'subnet_id': 'members',
                         'backup': False},
                        {'address': '192.0.2.2', 'protocol_port': 80}],
                    'healthmonitor': {
                        'type': 'HTTP', 'delay': 5, 'timeout': 1,
                        'max_retries': 3, 'max_retries_down': 3,
                        'url_path': '/'}}}]},
            populated.load_balancer(_WIZARD, 'project'))

    def test_omitted_objects_are_not_created(self):
        body = populated.load_balancer(
            {'loadbalancer': {'vip_subnet_id': 'vips'}}, 'project')
        self.assertEqual({'vip_subnet_id': 'vips', 'project_id': 'project'},
                         body)
        without_pool = {**_WIZARD, 'pool': None}
        self.assertNotIn('default_pool', populated.load_balancer(
            without_pool, 'project')['listeners'][0])

    def test_monitor_without_a_type_is_not_created(self):
        # The wizard sends the defaults of a monitor that was not asked for.
        wizard = {**_WIZARD, 'monitor': {'delay': 5, 'timeout': 5}}
        pool = populated.load_balancer(
            wizard, 'project')['listeners'][0]['default_pool']
        self.assertNotIn('healthmonitor', pool)

    def test_first_certificate_is_the_default_and_others_are_for_sni(self):
        wizard = {**_WIZARD, 'certificates': ['a', 'b', 'c']}
        listener = populated.load_balancer(wizard, 'project')['listeners'][0]
        self.assertEqual(('a', ['b', 'c']), (
            listener['default_tls_container_ref'],
            listener['sni_container_refs']))
