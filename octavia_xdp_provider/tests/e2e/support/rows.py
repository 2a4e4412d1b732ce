# SPDX-License-Identifier: Apache-2.0
"""A request of Octavia's API for each row of the table of options.

The rows are those of driver/support.py; tests/unit/driver/test_rows.py finds
one that is missing here. Values are as Octavia's API spells them.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Accepted:
    """The row with a value at the creation, and with another one later.

    None: it cannot be given at that time. ``then``: the row can only be
    given at the creation if it is None.
    """

    first: object = None
    then: object = None


@dataclasses.dataclass(frozen=True)
class Refused:
    """A request that asks for the row, and what the answer names of these.

    Without ``names`` it is the row itself.
    """

    fields: dict
    names: tuple = ()


@dataclasses.dataclass(frozen=True)
class Elsewhere:
    """The row is nothing that a request could give or leave by itself."""

    why: str


PARENT = Elsewhere('which object is meant: part of every request')
CHILDREN = Elsewhere('a populated creation')
SHOWN = Elsewhere('Octavia derives it from the token')
BY_PROXIES = Elsewhere('what proxy nodes do: tests of the renderer and '
                       'functional tests ask HAProxy for it')


ROWS = {
    'loadbalancer': {
        'loadbalancer_id': PARENT, 'project_id': SHOWN,
        'listeners': CHILDREN, 'pools': CHILDREN,
        'name': Accepted('rows', 'rows-2'),
        'description': Accepted('all rows', 'once more'),
        'admin_state_up': Accepted(True, False),
        # Their values are the lab's.
        'vip_address': Accepted('203.0.113.77'),
        'vip_network_id': Accepted(), 'vip_port_id': Accepted(),
        'vip_subnet_id': Accepted(), 'flavor': Accepted(),
        'availability_zone': Accepted(), 'additional_vips': Accepted(),
        'vip_qos_policy_id': Refused({}),
        'vip_sg_ids': Refused({}),
    },
    'listener': {
        'listener_id': PARENT, 'loadbalancer_id': PARENT,
        'project_id': SHOWN, 'default_pool': CHILDREN,
        'name': Accepted('rows', 'rows-2'),
        'description': Accepted('all rows', 'once more'),
        'admin_state_up': Accepted(True, False),
        'protocol': Accepted('UDP'), 'protocol_port': Accepted(5388),
        'default_pool_id': Accepted(),
        'allowed_cidrs': Accepted(['198.51.100.0/24', '192.0.2.0/24'],
                                  ['198.51.100.0/24']),
        'timeout_client_data': Accepted(400000, 500000),
        'timeout_member_data': Accepted(300000, 600000),
        'timeout_member_connect': Accepted(7000, 8000),
        'timeout_tcp_inspect': Accepted(9, 10),
        'connection_limit': Elsewhere('NAT of TCP alone, faults.test_nat'),
        **dict.fromkeys((
            'insert_headers', 'l7policies', 'default_tls_container_ref',
            'default_tls_container_data', 'sni_container_refs',
            'sni_container_data', 'client_ca_tls_container_ref',
            'client_ca_tls_container_data', 'client_authentication',
            'client_crl_container_ref', 'client_crl_container_data',
            'tls_versions', 'tls_ciphers', 'alpn_protocols', 'hsts_max_age',
            'hsts_include_subdomains', 'hsts_preload'), BY_PROXIES),
    },
    'pool': {
        'pool_id': PARENT, 'loadbalancer_id': PARENT, 'listener_id': PARENT,
        'project_id': SHOWN, 'members': CHILDREN, 'healthmonitor': CHILDREN,
        'name': Accepted('rows', 'rows-2'),
        'description': Accepted('all rows', 'once more'),
        'admin_state_up': Accepted(True, False),
        'protocol': Accepted('UDP'),
        'lb_algorithm': Accepted('SOURCE_IP_PORT', 'SOURCE_IP'),
        'session_persistence': Accepted(
            {'type': 'SOURCE_IP', 'persistence_timeout': 100,
             'persistence_granularity': '255.255.255.0'},
            {'type': 'SOURCE_IP', 'persistence_timeout': 200,
             'persistence_granularity': '255.255.0.0'}),
        **dict.fromkeys((
            'tls_enabled', 'tls_container_ref', 'tls_container_data',
            'ca_tls_container_ref', 'ca_tls_container_data',
            'crl_container_ref', 'crl_container_data', 'tls_versions',
            'tls_ciphers', 'alpn_protocols'), BY_PROXIES),
    },
    'member': {
        'member_id': PARENT, 'pool_id': PARENT, 'project_id': SHOWN,
        'name': Accepted('rows', 'rows-2'),
        'admin_state_up': Accepted(True, False),
        'address': Accepted('198.18.10.77'), 'protocol_port': Accepted(5353),
        'weight': Accepted(7, 256), 'backup': Accepted(True, False),
        'subnet_id': Accepted(),
        'monitor_address': Accepted('198.18.10.78', '198.18.10.79'),
        'monitor_port': Accepted(8078, 8079),
        'vnic_type': Refused({'vnic_type': 'direct'}),
    },
    'healthmonitor': {
        'healthmonitor_id': PARENT, 'pool_id': PARENT, 'project_id': SHOWN,
        'name': Accepted('rows', 'rows-2'),
        'admin_state_up': Accepted(True, False),
        'type': Accepted('HTTP'),
        'delay': Accepted(50, 51), 'timeout': Accepted(40, 41),
        'max_retries': Accepted(4, 5), 'max_retries_down': Accepted(6, 7),
        'http_method': Accepted('HEAD', 'OPTIONS'),
        'url_path': Accepted('/rows', '/rows-2'),
        'expected_codes': Accepted('200-204', '201,202'),
        'http_version': Accepted(1.1, 1.1),
        'domain_name': Accepted('rows.example.org', 'rows-2.example.org'),
    },
    'l7policy': dict.fromkeys((
        'l7policy_id', 'listener_id', 'project_id', 'name', 'description',
        'admin_state_up', 'action', 'position', 'redirect_pool_id',
        'redirect_url', 'redirect_prefix', 'redirect_http_code', 'rules'),
        BY_PROXIES),
    'l7rule': dict.fromkeys((
        'l7rule_id', 'l7policy_id', 'project_id', 'admin_state_up', 'type',
        'compare_type', 'key', 'value', 'invert'), BY_PROXIES),
}


def values(kind, when):
    """Row → value of all that can be given, ``first`` or ``then``."""
    return {row: getattr(case, when) for row, case in ROWS[kind].items()
            if isinstance(case, Accepted) and getattr(case, when) is not None}


def refused(kind):
    """Row → case of all that are refused."""
    return {row: case for row, case in ROWS[kind].items()
            if isinstance(case, Refused)}
