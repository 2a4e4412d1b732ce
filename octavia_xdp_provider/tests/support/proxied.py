# SPDX-License-Identifier: Apache-2.0
"""Documents of proxied load balancers, and settings to render them with."""

import uuid

from octavia_xdp_provider.proxy.render import settings

VIP = '203.0.113.10'
NAMESPACE = uuid.UUID(int=0)


def uuid_of(name):
    """Return the same id for the same name."""
    return str(uuid.uuid5(NAMESPACE, name))


def bundle(name):
    """Return something like the hash of a bundle."""
    return (name.encode().hex() + 64 * '0')[:64]


def member(address='198.18.10.11', **more):
    return {'admin_state_up': True, 'address': address, 'protocol_port': 80,
            'weight': 1, 'backup': False, 'monitor_address': None,
            'monitor_port': None, **more}


def monitor(**more):
    return {'id': uuid_of('monitor'), 'admin_state_up': True, 'type': 'TCP',
            'delay': 1, 'timeout': 1, 'max_retries': 1, 'max_retries_down': 1,
            'http_method': 'GET', 'url_path': '/', 'expected_codes': '200',
            'http_version': 1.0, 'domain_name': None, **more}


def pool(members=(), **more):
    """:param members: by name."""
    return {'admin_state_up': True, 'protocol': 'HTTP',
            'lb_algorithm': 'ROUND_ROBIN', 'session_persistence': None,
            'tls_enabled': False, 'tls_bundle': None, 'ca_bundle': None,
            'crl_bundle': None, 'tls_ciphers': None, 'tls_versions': None,
            'alpn_protocols': None, 'healthmonitor': None,
            'members': {uuid_of(name): value
                        for name, value in dict(members).items()}, **more}


def rule(kind='PATH', value='/api', compare_type='STARTS_WITH', **more):
    return {'admin_state_up': True, 'type': kind, 'key': None, 'value': value,
            'compare_type': compare_type, 'invert': False, **more}


def policy(action='REJECT', rules=(), **more):
    """:param rules: by name."""
    return {'admin_state_up': True, 'action': action, 'position': 1,
            'redirect_pool_id': None, 'redirect_url': None,
            'redirect_prefix': None, 'redirect_http_code': None,
            'rules': {uuid_of(name): value
                      for name, value in dict(rules).items()}, **more}


def listener(policies=(), **more):
    """:param policies: by name."""
    return {'admin_state_up': True, 'protocol': 'HTTP', 'protocol_port': 80,
            'default_pool_id': None, 'connection_limit': None,
            'timeout_client_data': None, 'timeout_member_connect': None,
            'timeout_member_data': None, 'timeout_tcp_inspect': None,
            'insert_headers': [], 'default_tls_bundle': None,
            'sni_bundles': [], 'client_authentication': 'NONE',
            'client_ca_bundle': None, 'client_crl_bundle': None,
            'tls_ciphers': None, 'tls_versions': None, 'alpn_protocols': None,
            'hsts_max_age': None, 'hsts_include_subdomains': False,
            'hsts_preload': False,
            'l7policies': {uuid_of(name): value
                           for name, value in dict(policies).items()}, **more}


def document(listeners=(), pools=(), **more):
    """:param listeners: by name; so are ``pools``."""
    return {'version': 1, 'id': uuid_of('load balancer'),
            'admin_state_up': True, 'vip_address': VIP, 'additional_vips': [],
            'listeners': {uuid_of(name): value
                          for name, value in dict(listeners).items()},
            'pools': {uuid_of(name): value
                      for name, value in dict(pools).items()}, **more}


def web(policies=(), members=None, **more):
    """Return a document with a listener "web" and its pool "webs".

    :param more: fields of the listener.
    """
    return document(
        {'web': listener(policies, **{'default_pool_id': uuid_of('webs'),
                                      **more})},
        {'webs': pool({'m1': member()} if members is None else members)})


def render_settings(directory='/run/lb', **more):
    return settings.Settings(**{
        'run': directory, 'certificates': f'{directory}/certificates',
        'haproxy': (2, 6),
        **more})
