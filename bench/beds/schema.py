# SPDX-License-Identifier: Apache-2.0
"""The JSON schema of test beds."""

from bench.beds import declaration
from bench.beds import interface
from bench.declarations import shapes

_ROLE = {'enum': list(interface.ROLES)}
_USER = shapes.pattern('^[A-Za-z_][A-Za-z0-9_.-]*$', 'a name of a user')
_SYSCTL = shapes.by_name({'type': ['integer', 'string']}, shapes.pattern(
    '^[a-z0-9_]+([./][A-Za-z0-9_-]+)+$',
    'a name as sysctl has it, as in net.ipv4.ip_forward'))
_INTERFACES = shapes.listed(shapes.form('interface'))
_NIC = {
    'mtu': shapes.whole(1280, 9216),
    'queues': shapes.whole(1, 256),
    'offloads': shapes.by_name(shapes.BOOLEAN, shapes.pattern(
        '^[a-z0-9][a-z0-9-]*$', 'a name as ethtool -k shows it')),
    'rss': shapes.mapping({
        'equal': shapes.whole(1, 256),
        'fields': shapes.by_name(
            shapes.pattern('^[mvtsdfnr]+$',
                           'letters as of ethtool -N … rx-flow-hash'),
            {'enum': ['tcp4', 'tcp6', 'udp4', 'udp6']}),
    }),
    'rings': shapes.mapping({'rx': shapes.whole(1), 'tx': shapes.whole(1)}),
    'receive_xdp': shapes.BOOLEAN,
}

_HOST = shapes.mapping({
    'role': _ROLE,
    'count': shapes.whole(1, 64),
    'sysctl': _SYSCTL,
    'loopback': _INTERFACES,
    'routes': {'type': 'array', 'items': shapes.mapping({
        'to': shapes.form('network'),
        'via': {'anyOf': [{'type': 'string'},
                          shapes.listed({'type': 'string'})]},
        'mtu': shapes.whole(1280, 65535),
    }, 'to', 'via')},
    'nic': shapes.by_name(shapes.mapping(_NIC)),
    'ssh': shapes.mapping({
        'address': shapes.pattern('^[A-Za-z0-9][A-Za-z0-9.:_-]*$',
                                  'a name or an address'),
        'port': shapes.whole(1, 65535),
        'user': _USER,
        'key': shapes.TEXT,
        'host_key': shapes.pattern(
            '^(ssh-|ecdsa-|sk-)[^ ]+ [A-Za-z0-9+/=]+( .*)?$',
            'a public key, as in a .pub file of /etc/ssh'),
        'interfaces': shapes.by_name(shapes.pattern(
            '^[^ /:]{1,15}$', 'a name of an interface'), least=1),
        'variables': shapes.ANY_MAPPING,
    }, 'address', 'interfaces'),
}, 'role')

_LINK = shapes.mapping({
    'ends': shapes.listed({'type': 'string'}, 2),
    'kind': {'enum': ['pairs', 'segment']},
    'networks': shapes.listed(shapes.form('network'), maxItems=2),
    'addresses': shapes.by_name(_INTERFACES),
    'permanent_neighbours': shapes.BOOLEAN,
    **_NIC,
}, 'ends')

SCHEMA = shapes.mapping({
    'name': shapes.pattern('^[a-z0-9][a-z0-9-]{0,31}$',
                           'lower-case letters, digits and dashes, 32 at '
                           'most'),
    'description': {'type': 'string'},
    'provider': {'enum': list(declaration.PROVIDERS)},
    'hosts': shapes.by_name(_HOST, shapes.pattern(
        '^[a-z][a-z0-9_]{0,15}$',
        'a lower-case letter, then letters, digits and underscores, 16 at '
        'most'), 1),
    'links': shapes.by_name(_LINK, shapes.pattern(
        '^[a-z][a-z0-9_]{0,12}$',
        'a lower-case letter, then letters, digits and underscores, 13 at '
        'most (interfaces have the name, and a number)'), 1),
    'sysctl': _SYSCTL,
    'software': shapes.mapping({
        **dict.fromkeys(('name', 'version', 'packages', 'revision'),
                        shapes.TEXT),
        'configuration': shapes.ANY_MAPPING,
    }),
    'guest': shapes.mapping({
        'kernel': shapes.TEXT,
        'parameters': {'type': 'string'},
        'memory': shapes.whole(256),
        'cpus': shapes.whole(1, 64),
        'count_instructions': shapes.BOOLEAN,
    }),
    'ssh': shapes.mapping({
        'user': _USER,
        'key': shapes.TEXT,
        'known_hosts': shapes.TEXT,
        'roles': shapes.by_name({'type': 'string'}, _ROLE, 1),
        'playbook': shapes.TEXT,
        'groups': shapes.by_name({'type': 'array',
                                  'items': {'type': 'string'}}),
        'variables': shapes.ANY_MAPPING,
    }),
}, 'name', 'hosts', 'links')
