# SPDX-License-Identifier: Apache-2.0
"""tempest.conf for a lab, and the options of the provider for these tests."""

import logging

from lab import cloud
from lab import paths
from lab.control import ini
from lab.control import keystone
from lab.control import octavia
from lab.control import secret
from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.contracts import zone

# The tests choose these addresses of members. They are in the LB nodes'
# management network, but no LB node has them.
MEMBER_NETWORKS = f'{paths.MEMBER_NETWORKS},192.0.2.0/29'

# Options of an operator whose users make the same requests as the tests.
PROVIDER_OPTIONS = {
    # The tests' VIPs are on networks of the tests' projects.
    'vip': {'any_network': True},
    'members': {'allowed_networks': MEMBER_NETWORKS,
                # Methods of the tests' health monitors.
                'monitor_http_methods': 'GET,HEAD,OPTIONS,POST'},
    'defaults': {'member_port': 'rewrite'},
}
NODE_OPTIONS = {'members': {'allowed_networks': MEMBER_NETWORKS}}
PROXIES = 2

# Seconds between two queries of a status.
INTERVAL_S = 0.3


def write(lab, directory):
    """Write tempest.conf; return its path."""
    path = directory / 'tempest.conf'
    ini.write(path, {
        'DEFAULT': {'log_dir': directory, 'log_file': 'tempest.log',
                    'default_log_levels': ','.join(
                        f'{name}={logging.getLevelName(logging.WARNING)}'
                        for name in ('tempest.lib.common.rest_client',
                                     'octavia_tempest_plugin'))},
        'oslo_concurrency': {'lock_path': directory},
        'auth': {
            'use_dynamic_credentials': True,
            'create_isolated_networks': False,
            'admin_username': cloud.ADMIN,
            'admin_password': secret.password(lab, cloud.ADMIN),
            'admin_project_name': cloud.ADMIN,
            'admin_domain_name': 'Default',
        },
        'identity': {'auth_version': 'v3', 'uri_v3': keystone.URL,
                     'region': keystone.REGION},
        'network': {'project_networks_reachable': True},
        # The tests of the API start no servers, but require the services.
        'service_available': {'neutron': True, 'nova': True, 'glance': True,
                              'cinder': False, 'swift': False,
                              'horizon': False, 'barbican': True},
        'validation': {'run_validation': False},
    }, provider_options({'member_port': 'rewrite'}, layer_7=True), {
        'load_balancer': {
            **_networks(),
            **dict.fromkeys(('build_interval', 'check_interval',
                             'lb_build_interval'), INTERVAL_S),
            **dict.fromkeys(('build_timeout', 'check_timeout',
                             'lb_build_timeout'), 90),
        },
    })
    return path


def provider_options(defaults, layer_7=False):
    """Return the provider's options for the tests: section → option → value.

    :param defaults: [defaults] of the controller.
    :param layer_7: whether the cloud has proxy nodes and Barbican.
    """
    return {
        'load_balancer': {
            'provider': octavia.XDP,
            'enabled_provider_drivers':
                f'{octavia.XDP}:{octavia.DESCRIPTIONS[octavia.XDP]}',
            'RBAC_test_type': 'keystone_default_roles',
            **_capabilities(defaults),
            'availability_zone': 'zone1',
            'availability_zone2': 'zone2',
            'availability_zone3': 'zone3',
        },
        # Without proxy nodes this provider answers requests for layer 7 by
        # "not implemented" (HTTP 501).
        'loadbalancer-feature-enabled': {
            'not_implemented_is_error': layer_7,
            'l7_protocol_enabled': layer_7,
            'terminated_tls_enabled': layer_7,
            'prometheus_listener_enabled': layer_7,
        },
    }


def _capabilities(defaults):
    """Return one key of each kind; a comma in its description would separate.
    """
    descriptions = {
        'expected_flavor_capability': {
            key: flavor.description(key, defaults) for key in flavor.KEYS},
        'expected_availability_zone_capability': {
            key: zone.description(key) for key in zone.KEYS},
    }
    return {name: next(f'{key}:{text}' for key, text in texts.items()
                       if ',' not in text)
            for name, texts in descriptions.items()}


def _networks():
    # Each class of tests creates its own network for VIPs, with addresses
    # that the lab's nodes announce.
    return {
        'vip_subnet_cidr': paths.VIP_NETWORK,
        'vip_ipv6_subnet_cidr': paths.VIP_NETWORK_V6,
    }
