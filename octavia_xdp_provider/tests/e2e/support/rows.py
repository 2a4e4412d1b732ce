# SPDX-License-Identifier: Apache-2.0
"""A request of Octavia's API for each row of the table of options.

The rows are those of driver/support.py; tests/unit/driver/test_rows.py finds
one that is missing here. Values are as Octavia's API spells them.
"""

import dataclasses

REFERENCE = 'http://192.0.2.1/v1/containers/5a2f8a7e'
OFFLOADED = {'protocol': 'TERMINATED_HTTPS',
             'default_tls_container_ref': REFERENCE}
# What only a listener can ask for that ends TLS is refused by that.
BY_PROTOCOL = ('protocol',)
# Octavia looks into certificates of authorities before it asks the driver,
# and this reference leads to none.
BY_AUTHORITY = ('CA certificate',)


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


def _content(of):
    """What Octavia fetches for a reference before it calls the driver."""
    return Elsewhere(f'the content of {of}')


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
        'insert_headers': Refused({
            'protocol': 'HTTP',
            'insert_headers': {'X-Forwarded-For': 'true'}}, BY_PROTOCOL),
        'l7policies': Elsewhere('an L7 policy of its own, test_api_l7'),
        'default_tls_container_ref': Refused(OFFLOADED, BY_PROTOCOL),
        'default_tls_container_data': _content('default_tls_container_ref'),
        'sni_container_refs': Refused(
            {'protocol': 'TERMINATED_HTTPS',
             'sni_container_refs': [REFERENCE]}, BY_PROTOCOL),
        'sni_container_data': _content('sni_container_refs'),
        'client_ca_tls_container_ref': Refused(
            {**OFFLOADED, 'client_ca_tls_container_ref': REFERENCE},
            BY_AUTHORITY),
        'client_ca_tls_container_data':
            _content('client_ca_tls_container_ref'),
        'client_authentication': Refused(
            {**OFFLOADED, 'client_ca_tls_container_ref': REFERENCE,
             'client_authentication': 'MANDATORY'}, BY_AUTHORITY),
        'client_crl_container_ref': Refused(
            {**OFFLOADED, 'client_ca_tls_container_ref': REFERENCE,
             'client_crl_container_ref': REFERENCE}, BY_AUTHORITY),
        'client_crl_container_data': _content('client_crl_container_ref'),
        'tls_versions': Refused({**OFFLOADED, 'tls_versions': ['TLSv1.3']},
                                BY_PROTOCOL),
        'tls_ciphers': Refused(
            {**OFFLOADED, 'tls_ciphers': 'TLS_AES_256_GCM_SHA384'},
            BY_PROTOCOL),
        'alpn_protocols': Refused({**OFFLOADED, 'alpn_protocols': ['h2']},
                                  BY_PROTOCOL),
        'hsts_max_age': Refused({**OFFLOADED, 'hsts_max_age': 60},
                                BY_PROTOCOL),
        'hsts_include_subdomains': Refused(
            {**OFFLOADED, 'hsts_max_age': 60,
             'hsts_include_subdomains': True}, BY_PROTOCOL),
        'hsts_preload': Refused(
            {**OFFLOADED, 'hsts_max_age': 60, 'hsts_preload': True},
            BY_PROTOCOL),
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
        'tls_enabled': Refused({'tls_enabled': True}),
        'tls_container_ref': Refused({'tls_container_ref': REFERENCE}),
        'tls_container_data': _content('tls_container_ref'),
        'ca_tls_container_ref': Refused(
            {'ca_tls_container_ref': REFERENCE}, BY_AUTHORITY),
        'ca_tls_container_data': _content('ca_tls_container_ref'),
        'crl_container_ref': Refused(
            {'ca_tls_container_ref': REFERENCE,
             'crl_container_ref': REFERENCE}, BY_AUTHORITY),
        'crl_container_data': _content('crl_container_ref'),
        'tls_versions': Refused({'tls_versions': ['TLSv1.3']}),
        'tls_ciphers': Refused({'tls_ciphers': 'TLS_AES_256_GCM_SHA384'}),
        'alpn_protocols': Refused({'alpn_protocols': ['h2']}),
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
}


def values(kind, when):
    """Row → value of all that can be given, ``first`` or ``then``."""
    return {row: getattr(case, when) for row, case in ROWS[kind].items()
            if isinstance(case, Accepted) and getattr(case, when) is not None}


def refused(kind):
    """Row → case of all that are refused."""
    return {row: case for row, case in ROWS[kind].items()
            if isinstance(case, Refused)}
