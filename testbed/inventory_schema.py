# SPDX-License-Identifier: Apache-2.0
"""JSON schema of inventory files.

It restricts all names that become part of the configuration of a switch or
boot server: none contains a blank, a quote or a newline. Patterns end in \\Z,
since Python's $ also matches before a final newline.
"""

_NAME = r'^[a-z0-9][a-z0-9-]{0,31}\Z'
# The kernel's limit (IFNAMSIZ), without characters that have a meaning in
# configurations.
_INTERFACE = r'^[A-Za-z0-9][A-Za-z0-9._-]{0,14}\Z'
_MAC = r'^([0-9a-f]{2}:){5}[0-9a-f]{2}\Z'
_PARAMETERS = r'^[A-Za-z0-9@._:,=/+-]+( [A-Za-z0-9@._:,=/+-]+)*\Z'


def _pattern(pattern, description):
    return {'type': 'string', 'pattern': pattern, 'description': description}


NAME = _pattern(_NAME, 'lower-case letters, digits and dashes, 32 at most')
INTERFACE = _pattern(_INTERFACE, "an interface's name: letters, digits, dots, "
                     'dashes and underscores, 15 at most')
MAC = _pattern(_MAC, 'a MAC address in lower case, as in 52:54:00:00:00:01')
PARAMETERS = _pattern(_PARAMETERS, 'kernel parameters with single blanks '
                      'between them, without quotes')
ADDRESS, INTERFACE_ADDRESS, NETWORK = ({
    'type': 'string', 'format': format_,
    # Without a zone after %, which may contain any character.
    'pattern': r'^[0-9a-fA-F.:/]+\Z',
    'description': 'an address without a zone',
} for format_ in ('address', 'interface', 'network'))
AS_NUMBER = {'type': 'integer', 'minimum': 1, 'maximum': 4294967294}

_PORT = {
    'type': 'object',
    'additionalProperties': False,
    'required': ['switch', 'port', 'addresses'],
    'properties': {
        'switch': NAME,
        'port': INTERFACE,
        # Addresses of the switch, with prefix lengths.
        'addresses': {'type': 'array', 'minItems': 1,
                      'items': INTERFACE_ADDRESS},
        # The machine's BGP speaker, if it has one, as load balancers do.
        'bgp': {
            'type': 'object',
            'additionalProperties': False,
            'required': ['address', 'as'],
            'properties': {
                'address': ADDRESS,
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
        # The management address.
        'address': ADDRESS,
        # That of the booting interface.
        'mac': MAC,
        'ports': {'type': 'array', 'items': _PORT},
    },
}

_SWITCH = {
    'type': 'object',
    'additionalProperties': False,
    'required': ['address', 'as'],
    'properties': {
        'address': ADDRESS,
        'as': AS_NUMBER,
        'user': _pattern(r'^[a-z_][a-z0-9_-]{0,31}\Z',
                         'a login name'),
        # local: the machine that runs the command.
        'connection': {'enum': ['ssh', 'local']},
        'host_key': _pattern(
            r'^(ssh-|ecdsa-|sk-)[a-z0-9@.-]+ [A-Za-z0-9+/=]+'
            r'( [^\x00-\x1f]*)?\Z',
            'a public key, as in a .pub file of /etc/ssh'),
        # Networks that machines of a bed may announce: VIPs.
        'announced': {'type': 'array', 'items': NETWORK},
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
        'parameters': PARAMETERS,
    },
}

_BOOT = {
    'type': 'object',
    'additionalProperties': False,
    'required': ['interface', 'address', 'network'],
    'properties': {
        'interface': INTERFACE,
        # This host's, in the network of the machines' booting interfaces.
        'address': ADDRESS,
        'network': NETWORK,
        # For scripts, kernels and roots.
        'protocol': {'enum': ['http', 'tftp']},
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
        'machines': {**_named(_NAME, _MACHINE), 'minProperties': 1},
        'switches': _named(_NAME, _SWITCH),
        'kernels': _named(r'^[a-z0-9][a-z0-9._-]{0,63}\Z', _KERNEL),
        'boot': _BOOT,
        'longest_lease_hours': {'type': 'integer', 'minimum': 1,
                                'maximum': 8760},
    },
}
