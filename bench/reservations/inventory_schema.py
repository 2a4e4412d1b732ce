# SPDX-License-Identifier: Apache-2.0
"""JSON schema of inventory files.

All names that become configuration of a switch or a boot server are bounded
here: none has a blank, a quote or a line's end. Patterns end in \\Z, since
Python's $ lets a last line's end pass.
"""

NAME = r'^[a-z0-9][a-z0-9-]{0,31}\Z'
# As the kernel has them (IFNAMSIZ), without what a configuration may read
# otherwise.
INTERFACE = r'^[A-Za-z0-9][A-Za-z0-9._-]{0,14}\Z'
MAC = r'^([0-9a-f]{2}:){5}[0-9a-f]{2}\Z'
# One kernel parameter, or several with single blanks.
PARAMETERS = r'^[A-Za-z0-9@._:,=/+-]+( [A-Za-z0-9@._:,=/+-]+)*\Z'
ADDRESS = r'^[0-9a-f.:]{3,39}\Z'
PREFIX = r'^[0-9a-f.:]{3,39}/[0-9]{1,3}\Z'
AS_NUMBER = {'type': 'integer', 'minimum': 1, 'maximum': 4294967294}

_PORT = {
    'type': 'object',
    'additionalProperties': False,
    'required': ['switch', 'port', 'addresses'],
    'properties': {
        'switch': {'type': 'string', 'pattern': NAME},
        'port': {'type': 'string', 'pattern': INTERFACE},
        # The switch's own, with their prefix lengths.
        'addresses': {'type': 'array', 'minItems': 1, 'items': {
            'type': 'string', 'pattern': PREFIX}},
        # The machine's speaker of BGP, if it has one: a load balancer node.
        'bgp': {
            'type': 'object',
            'additionalProperties': False,
            'required': ['address', 'as'],
            'properties': {
                'address': {'type': 'string', 'pattern': ADDRESS},
                'as': AS_NUMBER,
            },
        },
    },
}

_MACHINE = {
    'type': 'object',
    'additionalProperties': False,
    'required': ['role', 'address'],
    'properties': {
        'role': {'enum': ['generator', 'load_balancer', 'router', 'member',
                          'sink']},
        # Where it is reached for management.
        'address': {'type': 'string', 'pattern': ADDRESS},
        # Of the interface that boots.
        'mac': {'type': 'string', 'pattern': MAC},
        'ports': {'type': 'array', 'items': _PORT},
    },
}

_SWITCH = {
    'type': 'object',
    'additionalProperties': False,
    'required': ['address', 'as'],
    'properties': {
        'address': {'type': 'string', 'pattern': ADDRESS},
        'as': AS_NUMBER,
        'user': {'type': 'string', 'pattern': r'^[a-z_][a-z0-9_-]{0,31}\Z'},
        # local: it is the machine that runs the command.
        'connection': {'enum': ['ssh', 'local']},
        # What members of a bed may announce: VIPs.
        'announced': {'type': 'array', 'items': {
            'type': 'string', 'pattern': PREFIX}},
    },
}

_KERNEL = {
    'type': 'object',
    'additionalProperties': False,
    'required': ['kernel', 'initramfs'],
    'properties': {
        # Files, relative to the inventory's folder or absolute.
        'kernel': {'type': 'string', 'minLength': 1},
        'initramfs': {'type': 'string', 'minLength': 1},
        'root': {'type': 'string', 'minLength': 1},
        # @root@ stands for the URL of "root".
        'parameters': {'type': 'string', 'pattern': PARAMETERS},
    },
}

_BOOT = {
    'type': 'object',
    'additionalProperties': False,
    'required': ['interface', 'address', 'network'],
    'properties': {
        'interface': {'type': 'string', 'pattern': INTERFACE},
        # Of this host, in the network of the machines' booting interfaces.
        'address': {'type': 'string', 'pattern': ADDRESS},
        'network': {'type': 'string', 'pattern': PREFIX},
        'http_port': {'type': 'integer', 'minimum': 1, 'maximum': 65535},
    },
}


def _named(pattern, items):
    return {'type': 'object', 'additionalProperties': False,
            'patternProperties': {pattern: items}}


SCHEMA = {
    'type': 'object',
    'additionalProperties': False,
    'required': ['machines'],
    'properties': {
        'machines': {**_named(NAME, _MACHINE), 'minProperties': 1},
        'switches': _named(NAME, _SWITCH),
        'kernels': _named(r'^[a-z0-9][a-z0-9._-]{0,63}\Z', _KERNEL),
        'boot': _BOOT,
        'longest_lease_hours': {'type': 'integer', 'minimum': 1,
                                'maximum': 8760},
    },
}
