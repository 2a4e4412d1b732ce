# SPDX-License-Identifier: Apache-2.0
"""Keys of flavors: what an operator chooses for load balancers.

Flavor metadata is part of the wanted state as the operator wrote it; a key
that is left out has the default that ``value`` returns.
"""

from collections.abc import Mapping
import json
from typing import Any

from octavia_xdp_provider.contracts import enumerations
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import profile

Key = profile.Key
ENCAPSULATIONS = enumerations.ENCAPSULATIONS
MEMBER_PORTS = ('same', 'rewrite', 'rewrite_on_member')
ZERO_TOUCH = ('off', 'preferred', 'required')
FORWARDING = ('tunnel', 'nat', 'proxy')
SPREADS = ('prefer', 'require', 'off')

# Algorithms of pools that nodes implement: a consistent hash of a flow's
# addresses and ports, or of its source address.
ALGORITHMS = ('SOURCE_IP_PORT', 'SOURCE_IP')
# Those that an operator may let the first of them serve.
ALGORITHMS_BY_HASH = ('LEAST_CONNECTIONS', 'ROUND_ROBIN')

# Encapsulations in which a packet can name a second member.
ALTERNATIVES_IN = ('gue', 'geneve', 'srv6')
# Keys that say how packets are carried to members, which nat does not do, and
# the value that asks for nothing, if there is one.
_OF_TUNNELS = {'encapsulation': None, 'dscp': None, 'srv6_function': None,
               'member_port': None, 'quic': False, 'second_chance': False,
               'zero_touch': 'off'}

# Seconds without a packet after which a flow may move to another member. The
# datapath library (datapath/lib/service/validate.c) refuses other values: the
# time of a remembered flow has few bits.
IDLE_TIMEOUT_MIN = 10
IDLE_TIMEOUT_MAX = 16000

# Above what one source can open, and below the library's limit.
RATE_MAX = 1_000_000

# Keys that only proxy nodes use, with the range of each: that of the option
# in [proxy], whose place its value takes.
PROXY_RANGES = {'proxy_connections': (1, 900_000), 'proxy_threads': (1, 64),
                'proxy_memory': (64, 1_048_576),
                'proxy_stop_after': (1, 86_400)}
_NOT_OF_LB_NODES = frozenset({'zero_touch', 'spread', *PROXY_RANGES})


def _integer(lowest: int, highest: int | None = None) -> profile.Schema:
    schema = {'type': 'integer', 'minimum': lowest}
    return schema if highest is None else {**schema, 'maximum': highest}


def _one_of(values: tuple[str, ...]) -> tuple[str, profile.Schema]:
    return ' or '.join(f'"{value}"' for value in values), {
        'enum': list(values)}


def _of_proxies(option: str, meaning: str) -> Key:
    """Return a key that takes the place of an option of proxy nodes.

    Operators make flavors, so that its value may exceed that of the option;
    what a node cannot give, its launcher refuses.
    """
    lowest, highest = PROXY_RANGES[f'proxy_{option}']
    return Key(
        f'{meaning} Takes the place of [proxy] {option} of the proxy nodes, '
        'and may exceed it.', f'a whole number from {lowest} to {highest}',
        _integer(lowest, highest),
        absent=f'[proxy] {option} of each proxy node')


KEYS = {
    'replicas': Key(
        'Number of LB nodes that the VIP is placed on.',
        'a whole number from 1', _integer(1),
        absent='[placement] replicas of the controller'),
    'spread': Key(
        'Whether the VIP\'s LB nodes are in different availability zones: '
        'with prefer as far as zones have nodes for it; with require no two '
        'are put into one zone, and the VIP has fewer nodes if there are '
        'fewer zones; with off zones do not matter. A load balancer whose '
        'availability zone in Octavia has a "zone" is in that zone only, '
        'which require excludes.',
        *_one_of(SPREADS), absent='[placement] spread of the controller'),
    'forwarding': Key(
        'How clients\' packets get to members: with tunnel as encapsulation '
        'says, with the client\'s address, and answers go straight to the '
        'client; with nat LB nodes rewrite addresses and ports in both '
        'directions, so that members need nothing but a route to the nodes\' '
        'pools, may listen on any port and be of the other IP version, and '
        'see an address of a pool in place of the client\'s; with proxy '
        'proxy nodes serve also those listeners of TCP and HTTPS that LB '
        'nodes could serve alone, and members see an address of the proxy. '
        'If the key is given, a listener\'s algorithm and connection limit '
        'do not move it to proxy nodes.',
        *_one_of(FORWARDING), 'tunnel'),
    'encapsulation': Key(
        'How packets travel to members: in IP, in GUE (UDP, port 6080), in '
        'GRE or in Geneve (UDP, port 6081); dscp rewrites destination and '
        'DSCP and adds no header; srv6 sends them to members\' SIDs.',
        *_one_of(ENCAPSULATIONS), 'ipip'),
    'dscp': Key(
        'DSCP by which members know the VIP. Needed with, and only with, '
        'encapsulation dscp.',
        'a whole number from 1 to 63', _integer(1, 63), absent='none'),
    'srv6_function': Key(
        'Function of members\' SIDs: takes the place of the last 16 bits of '
        'a member\'s address. Only with encapsulation srv6.',
        'a whole number from 0 to 65535, 0: the address itself is the SID',
        _integer(0, 65535), 0),
    'quic': Key(
        'UDP listeners send QUIC packets by the server ID in their '
        'connection IDs, so that a client may change its address.',
        'true or false', {'type': 'boolean'}, False),
    'second_chance': Key(
        'Packets of TCP connections name a second member where the first may '
        'not have the connection, and the first hands them on: connections '
        'survive changes of members and of LB nodes at once. Members need '
        'the project\'s program, with --member. Only with encapsulation '
        'gue, geneve or srv6.',
        'true or false', {'type': 'boolean'}, False),
    'new_flow_rate': Key(
        'New flows (UDP: packets) per second that one source address, or '
        'IPv6 /64, may send to a listener on each LB node; what is beyond '
        'is dropped.',
        f'a whole number from 0 to {RATE_MAX}, 0: no limit',
        _integer(0, RATE_MAX), 0),
    'new_flow_burst': Key(
        'New flows that such a source may send at once. Only with '
        'new_flow_rate.',
        f'a whole number from 1 to {RATE_MAX}', _integer(1, RATE_MAX),
        absent='as new_flow_rate'),
    'connection_limit_reset': Key(
        'With forwarding nat, which a connection_limit needs: clients beyond '
        'it are sent a TCP reset, by which they know at once; otherwise '
        'their packets are dropped, and they try again for a while.',
        'true or false', {'type': 'boolean'}, False),
    'idle_timeout': Key(
        'Seconds without a packet after which a flow may move to another '
        'member; a pool\'s persistence_timeout goes before it.',
        f'a whole number from {IDLE_TIMEOUT_MIN} to {IDLE_TIMEOUT_MAX}',
        _integer(IDLE_TIMEOUT_MIN, IDLE_TIMEOUT_MAX), 350),
    'algorithms_served_by_hash': Key(
        'Algorithms of pools that are accepted though members are chosen by '
        'a consistent hash of each flow\'s addresses and ports, as with '
        'SOURCE_IP_PORT.',
        'a list of ' + ' and '.join(f'"{name}"'
                                    for name in ALGORITHMS_BY_HASH),
        {'type': 'array', 'items': {'enum': list(ALGORITHMS_BY_HASH)}}, (),
        absent='none'),
    'member_port': Key(
        'Whether members may listen on other ports than the listener\'s; '
        'unless it is same, every member needs the project\'s program. With '
        'rewrite LB nodes write the member\'s port, and the program puts '
        'the listener\'s back into answers: a pool may have one address '
        'with several ports. With rewrite_on_member the program does both, '
        'which costs LB nodes nothing: a pool has each address once.',
        *_one_of(MEMBER_PORTS), 'same'),
    'zero_touch': Key(
        'Whether members are VMs that know nothing of the load balancer, and '
        'are reached through their hypervisor, on any port: with required '
        'all of them, with preferred those for which that is possible, '
        'others as encapsulation and member_port say.',
        *_one_of(ZERO_TOUCH), 'off'),
    'proxy_connections': _of_proxies(
        'connections', 'Maximum number of clients\' connections that the load '
        'balancer has at a time on each proxy node; further ones wait. A node '
        'whose launcher may not open as many files (LimitNOFILE) reports an '
        'error.'),
    'proxy_threads': _of_proxies(
        'threads', 'Number of threads of the load balancer\'s HAProxy on each '
        'proxy node.'),
    'proxy_memory': _of_proxies(
        'memory', 'Maximum memory, in MiB, of the load balancer\'s HAProxy '
        'processes on each proxy node. A connection takes about 35 KiB, and '
        'twice as much with TLS.'),
    'proxy_stop_after': _of_proxies(
        'stop_after', 'Seconds that connections to a HAProxy process may last '
        'after a change has replaced it.'),
}


def _only_with(key: str, encapsulation: str) -> profile.Schema:
    return {'if': {'required': [key]},
            'then': {'required': ['encapsulation'], 'properties': {
                'encapsulation': {'const': encapsulation}}}}


PROFILE = profile.Profile('Flavor', KEYS, {'allOf': [
    _only_with('dscp', 'dscp'), _only_with('srv6_function', 'srv6'),
    {'if': {'required': ['forwarding'],
            'properties': {'forwarding': {'const': 'nat'}}},
     'then': {'properties': {
         key: False if unasked is None else {'const': unasked}
         for key, unasked in _OF_TUNNELS.items()}}},
    {'if': {'required': ['encapsulation'],
            'properties': {'encapsulation': {'const': 'dscp'}}},
     'then': {'required': ['dscp']}},
    {'if': {'required': ['second_chance'],
            'properties': {'second_chance': {'const': True}}},
     'then': {'required': ['encapsulation'], 'properties': {
         'encapsulation': {'enum': list(ALTERNATIVES_IN)}}}},
    {'if': {'required': ['new_flow_burst']},
     'then': {'required': ['new_flow_rate'],
              'properties': {'new_flow_rate': {'minimum': 1}}}}]})


def value(metadata: Mapping[str, Any], key: str) -> Any:
    """Return the value of a key, or its default."""
    return metadata.get(key, KEYS[key].default)


def is_nat(metadata: Mapping[str, Any]) -> bool:
    """Return whether LB nodes rewrite addresses and ports both ways."""
    return bool(value(metadata, 'forwarding') == 'nat')


def for_nodes(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return flavor metadata for LB nodes: without keys that only controllers
    or proxy nodes use, and without values of ``forwarding`` that LB nodes need
    not know."""
    return {key: given for key, given in metadata.items()
            if key not in _NOT_OF_LB_NODES
            and not (key == 'forwarding' and given != 'nat')}


def for_proxies(metadata: Mapping[str, object]) -> dict[str, object]:
    """Return flavor metadata for proxy nodes."""
    return {key: given for key, given in metadata.items()
            if key in PROXY_RANGES}


def problem(metadata: Any) -> errors.Problem | None:
    """Return what is wrong with flavor metadata.

    :returns: None or a tuple (why, instead), see errors.Refused.
    """
    if key_problem := PROFILE.problem(metadata):
        return key_problem
    if is_nat(metadata):
        for key in metadata:
            if _is_of_tunnels(key, metadata[key]):
                return (f'key {key!r} has no meaning with forwarding nat, '
                        'with which packets are not wrapped and each member '
                        'has a port of its own',
                        'leave it out or set forwarding to tunnel')
    encapsulation = value(metadata, 'encapsulation')
    if encapsulation == 'dscp' and 'dscp' not in metadata:
        return ('key \'dscp\' is missing, by which members know the VIP with '
                'encapsulation dscp', f'use {KEYS["dscp"].values}')
    for key, needed in (('dscp', 'dscp'), ('srv6_function', 'srv6')):
        if key in metadata and encapsulation != needed:
            return (f'key {key!r} has no meaning with encapsulation '
                    f'{encapsulation}',
                    f'leave it out or set encapsulation to {needed}')
    if (value(metadata, 'second_chance')
            and encapsulation not in ALTERNATIVES_IN):
        return (f'key \'second_chance\' has no meaning with encapsulation '
                f'{encapsulation}, which cannot carry an alternative',
                'leave it out or set encapsulation to '
                + ', '.join(ALTERNATIVES_IN[:-1])
                + f' or {ALTERNATIVES_IN[-1]}')
    if ('new_flow_burst' in metadata
            and not value(metadata, 'new_flow_rate')):
        return ('key \'new_flow_burst\' has no meaning without a '
                'new_flow_rate', 'leave it out or set new_flow_rate')
    return None


def _is_of_tunnels(key: str, given: Any) -> bool:
    """Return whether a key asks for something that nat excludes."""
    return key in _OF_TUNNELS and (
        _OF_TUNNELS[key] is None or given != _OF_TUNNELS[key])


def with_defaults(metadata: Mapping[str, Any],
                  defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return flavor metadata with the operator's defaults for absent keys.

    A load balancer keeps the result from its creation on: changed defaults
    only apply to load balancers that are created later.
    """
    result = dict(defaults)
    if is_nat({**defaults, **metadata}):
        if 'forwarding' not in metadata and any(
                _is_of_tunnels(*entry) for entry in metadata.items()):
            # The flavor itself says how packets get to members.
            result.pop('forwarding')
        else:
            result = {key: given for key, given in result.items()
                      if key not in _OF_TUNNELS}
    if 'new_flow_rate' in metadata:
        # The default burst belongs to the default rate.
        result.pop('new_flow_burst', None)
    if 'dscp' in metadata or 'srv6_function' in metadata:
        # Each needs an encapsulation of its own.
        result.pop('encapsulation', None)
    return {**result, **metadata}


def default(key: str, defaults: Mapping[str, Any] | None = None) -> str:
    """Describe what happens without a key.

    :param defaults: the operator's.
    """
    if defaults and key in defaults:
        return json.dumps(defaults[key]).strip('"')
    absent = KEYS[key].absent
    if absent:
        return absent
    return json.dumps(KEYS[key].default).strip('"')


def description(key: str, defaults: Mapping[str, Any] | None = None) -> str:
    """Describe a key in one paragraph for ``provider capability list``."""
    return (f'{KEYS[key].meaning} Value: {KEYS[key].values}. '
            f'Default: {default(key, defaults)}.')
