# SPDX-License-Identifier: Apache-2.0
"""JSON schema of inventory files.

It restricts all names that become part of the configuration of a switch or
boot server: none contains a blank, a quote or a newline. Patterns end in \\Z,
since Python's $ also matches before a final newline.
"""

from bench.declarations import shapes

NAME = shapes.pattern(r'^[a-z0-9][a-z0-9-]{0,31}\Z',
                      'lower-case letters, digits and dashes, 32 at most')
# The kernel's limit (IFNAMSIZ), without characters that have a meaning in
# configurations.
INTERFACE = shapes.pattern(
    r'^[A-Za-z0-9][A-Za-z0-9._-]{0,14}\Z', "an interface's name: letters, "
    'digits, dots, dashes and underscores, 15 at most')
# Without a zone after %, which may contain any character.
ADDRESS, INTERFACE_ADDRESS, NETWORK = (
    shapes.form(form) | shapes.pattern(r'^[0-9a-fA-F.:/]+\Z',
                                       'an address without a zone')
    for form in ('address', 'interface', 'network'))
_AS_NUMBER = shapes.whole(1, 4294967294)

_PORT = shapes.mapping({
    'switch': NAME,
    'port': INTERFACE,
    # Addresses of the switch, with prefix lengths.
    'addresses': {'type': 'array', 'minItems': 1, 'items': INTERFACE_ADDRESS},
    # The machine's BGP speaker, if it has one, as load balancers do.
    'bgp': shapes.mapping({'address': ADDRESS, 'as': _AS_NUMBER},
                          'address', 'as'),
}, 'switch', 'port', 'addresses')

_MACHINE = shapes.mapping({
    'role': {'enum': ['generator', 'load_balancer', 'router', 'member',
                      'sink']},
    # The management address.
    'address': ADDRESS,
    # The MAC address of the interface that boots.
    'mac': shapes.pattern(
        r'^([0-9a-f]{2}:){5}[0-9a-f]{2}\Z',
        'a MAC address in lower case, as in 52:54:00:00:00:01'),
    'ports': {'type': 'array', 'items': _PORT},
}, 'role', 'address')

_SWITCH = shapes.mapping({
    'address': ADDRESS,
    'as': _AS_NUMBER,
    'user': shapes.pattern(r'^[a-z_][a-z0-9_-]{0,31}\Z', 'a login name'),
    # local: the machine that runs the command.
    'connection': {'enum': ['ssh', 'local']},
    'host_key': shapes.pattern(
        r'^(ssh-|ecdsa-|sk-)[a-z0-9@.-]+ [A-Za-z0-9+/=]+( [^\x00-\x1f]*)?\Z',
        'a public key, as in a .pub file of /etc/ssh'),
    # Networks that machines of a bed may announce: VIPs.
    'announced': {'type': 'array', 'items': NETWORK},
}, 'address', 'as')

_KERNEL = shapes.mapping({
    # Files, relative to the inventory's folder or absolute.
    **dict.fromkeys(('kernel', 'initramfs', 'root'), shapes.TEXT),
    # @root@ stands for the URL of "root".
    'parameters': shapes.pattern(
        r'^[A-Za-z0-9@._:,=/+-]+( [A-Za-z0-9@._:,=/+-]+)*\Z',
        'kernel parameters with single blanks between them, without quotes'),
}, 'kernel', 'initramfs')

_BOOT = shapes.mapping({
    'interface': INTERFACE,
    # This host's, in the network of the machines' booting interfaces.
    'address': ADDRESS,
    'network': NETWORK,
    # For scripts, kernels and roots.
    'protocol': {'enum': ['http', 'tftp']},
    'http_port': shapes.whole(1, 65535),
}, 'interface', 'address', 'network')

SCHEMA = shapes.mapping({
    'machines': shapes.by_name(_MACHINE, NAME, 1),
    'switches': shapes.by_name(_SWITCH, NAME),
    'kernels': shapes.by_name(_KERNEL, shapes.pattern(
        r'^[a-z0-9][a-z0-9._-]{0,63}\Z',
        'lower-case letters, digits, dots, dashes and underscores, 64 at '
        'most')),
    'boot': _BOOT,
    'longest_lease_hours': shapes.whole(1, 8760),
}, 'machines')
