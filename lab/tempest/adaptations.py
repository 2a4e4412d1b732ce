# SPDX-License-Identifier: Apache-2.0
"""Adaptations of a copy of the plugin's tests before they run.

The tests give every listener a connection limit and every flavor a topology of
amphorae. This provider limits no connections of UDP and SCTP, and its flavors
have other keys.
"""

import re
import shutil

PLUGIN = 'octavia_tempest_plugin'
# Directories of tests that need no VM; skips.LEFT_OUT has the exceptions.
KINDS = ('api', 'scenario')

_NO_LIMIT = 'packets of UDP and SCTP do not show connections; -1 is no limit'
# The tests' variables for protocols are in scope where these are inserted.
_LIMIT = r"(-1 if {} in ('UDP', 'SCTP') else {})"

# File, regular expression, its replacement, and why.
ADAPTATIONS = (
    *((f'tests/{kind}/v2/test_{name}.py',
       r'(?s)(const\.PROTOCOL: (\w+),(?:(?!const\.CONNECTION_LIMIT).)*'
       r'const\.CONNECTION_LIMIT: )(200)',
       r'\1' + _LIMIT.format(r'\2', r'\3'), _NO_LIMIT)
      for kind in KINDS for name in ('listener', 'member')),
    *((f'tests/{kind}/v2/test_listener.py',
       r'(const\.CONNECTION_LIMIT: )(400)',
       r'\1' + _LIMIT.format('protocol', r'\2'), _NO_LIMIT)
      for kind in KINDS),
    *((f'tests/{kind}/v2/test_listener.py',
       r'(assertEqual\()([24]00)(, listener\[const\.CONNECTION_LIMIT\]\))',
       r'\1' + _LIMIT.format('protocol', r'\2') + r'\3', _NO_LIMIT)
      for kind in KINDS),
    ('common/constants.py', r"(LOADBALANCER_TOPOLOGY = )'.*'",
     r"\1'encapsulation'", 'a key of flavors that this provider has'),
    ('common/constants.py', r"(?m)^(SINGLE = )'.*'", r"\1'ipip'",
     'a value of that key'),
    ('common/constants.py', r"(?m)^(ACTIVE_STANDBY = )'.*'", r"\1'gue'",
     'another value'),
    *(('tests/api/v2/' + name,
       r'const\.MANAGEMENT_NETWORK: (uuidutils\.generate_uuid\(\))',
       r"'valid_vip_networks': [\1]",
       'a key of availability zone profiles that this provider has')
      for name in ('test_availability_zone.py',
                   'test_availability_zone_profile.py')),
    ('common/constants.py', r"(COMPUTE_ZONE = )'.*'", r"\1'zone'",
     'another key of these profiles'),
)


class Outdated(Exception):
    """The plugin's text does not match an adaptation."""


def copy(plugin, directory, adapt=True):
    """Copy the installed plugin into a directory, and adapt the copy.

    :raises Outdated: an adaptation finds nothing to change.
    """
    target = directory / PLUGIN
    shutil.copytree(plugin, target,
                    ignore=shutil.ignore_patterns('__pycache__'))
    for name, pattern, replacement, _why in ADAPTATIONS if adapt else ():
        path = target / name
        text, number = re.subn(pattern, replacement, path.read_text())
        if not number:
            raise Outdated(f'{path} has no match of {pattern}')
        path.write_text(text)
