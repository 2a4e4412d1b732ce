# SPDX-License-Identifier: Apache-2.0
"""Adaptations of a copy of the plugin's tests before they run.

The tests give every listener a connection limit and every flavor a topology,
both features of the amphora provider. With these two no test of layer 4 would
run; without them all tests of layer 4 run.
"""

import re
import shutil

PLUGIN = 'octavia_tempest_plugin'
# Directories of tests that need no VM; skips.LEFT_OUT has the exceptions.
KINDS = ('api', 'scenario')

# File, regular expression, its replacement, and why.
ADAPTATIONS = (
    *((f'tests/{kind}/v2/test_listener.py',
       r'(const\.CONNECTION_LIMIT: )[24]00', r'\g<1>-1',
       'a connection limit needs NAT; -1 is none') for kind in KINDS),
    *((f'tests/{kind}/v2/test_listener.py',
       r'(assertEqual\()[24]00(, listener\[const\.CONNECTION_LIMIT\]\))',
       r'\g<1>-1\2', 'the same, where it is shown') for kind in KINDS),
    *((f'tests/{kind}/v2/test_member.py',
       r'(const\.CONNECTION_LIMIT: )200', r'\g<1>-1',
       'a connection limit needs NAT; -1 is none') for kind in KINDS),
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
