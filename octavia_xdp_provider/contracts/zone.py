# SPDX-License-Identifier: Apache-2.0
"""Keys of availability zone profiles: where a load balancer's nodes are.

Octavia passes the profile's metadata when a load balancer is created, which
keeps it.
"""

from typing import Any

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import profile

Key = profile.Key
NAME_MAX = 255
_UUID = '^[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}$'


KEYS = {
    'zone': Key(
        'The VIP is placed only on LB nodes that the operator has registered '
        'in this zone.',
        f'a text of 1 to {NAME_MAX} characters',
        {'type': 'string', 'minLength': 1, 'maxLength': NAME_MAX}),
    'valid_vip_networks': Key(
        'Neutron networks that VIPs may be on, which octavia-api checks; '
        'those of the provider\'s own [vip] options hold as well.',
        'a list of UUIDs',
        {'type': 'array', 'minItems': 1,
         'items': {'type': 'string', 'pattern': _UUID}}),
}

PROFILE = profile.Profile('Availability zone', KEYS)


def problem(metadata: Any) -> errors.Problem | None:
    """Return what is wrong with metadata of an availability zone profile.

    :returns: None or a tuple (why, instead), see errors.Refused.
    """
    return PROFILE.problem(metadata)


def name_problem(name: str) -> errors.Problem | None:
    """Return what is wrong with the name of a node's zone."""
    if 1 <= len(name) <= NAME_MAX and name.isprintable():
        return None
    return (f'{name!r} cannot be the name of a zone',
            f'use 1 to {NAME_MAX} printable characters')


def description(key: str) -> str:
    """Describe a key in one paragraph for ``provider capability list``."""
    return f'{KEYS[key].meaning} Value: {KEYS[key].values}.'
