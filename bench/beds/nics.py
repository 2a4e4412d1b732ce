# SPDX-License-Identifier: Apache-2.0
"""Settings of interfaces by ethtool, and what they are, on any host."""

import json
from typing import Any

from bench import errors
from bench.beds import declaration
from bench.beds import interface

# Short names that ethtool takes, and what it shows.
_ALIASES = {
    'rx': 'rx-checksumming',
    'tx': 'tx-checksumming',
    'sg': 'scatter-gather',
    'tso': 'tcp-segmentation-offload',
    'gso': 'generic-segmentation-offload',
    'gro': 'generic-receive-offload',
    'lro': 'large-receive-offload',
    'rxvlan': 'rx-vlan-offload',
    'txvlan': 'tx-vlan-offload',
    'ntuple': 'ntuple-filters',
    'rxhash': 'receive-hashing',
}


def set_offloads(host: interface.Host, name: str,
                 offloads: dict[str, bool]) -> None:
    """:raises errors.BenchError: one is not as it was to be then."""
    if not offloads:
        return
    words = [word for offload, on in offloads.items()
             for word in (offload, _on(on))]
    said = host.run(['ethtool', '-K', name, *words],
                    check=False).stderr.strip()
    features = _features(host, name)
    has = {offload: features.get(_ALIASES.get(offload, offload))
           for offload in offloads}
    for offload, found in has.items():
        if found is None:
            raise errors.BenchError(
                f'{name} of host {host.name} has no offload "{offload}"; '
                f'"ethtool -k {name}" there shows which')
    for offload, on in offloads.items():
        found = has[offload]
        if found != on:
            raise errors.BenchError(
                f'offload "{offload}" of {name} of host {host.name} stays '
                f'{_on(found)}, declared is {_on(on)}'
                + (f': {said}' if said else ''))


def set_hardware(host: interface.Host, name: str,
                 nic: declaration.Nic) -> None:
    """Queues, descriptors and the spreading over queues, of a real one."""
    if nic.queues is not None:
        set_queues(host, name, nic.queues)
    if nic.rings:
        rings = [str(word) for pair in nic.rings.items() for word in pair]
        # It fails if they are so already.
        host.run(['ethtool', '-G', name, *rings], check=False)
        found = sections(host.run(['ethtool', '-g', name]).stdout)
        for kind, count in nic.rings.items():
            has = found.get('current', {}).get(kind)
            if has != str(count):
                raise errors.BenchError(
                    f'{name} of host {host.name} has {has} descriptors of '
                    f'{kind}, declared are {count}')
    if nic.rss_equal is not None:
        host.run(['ethtool', '-X', name, 'equal', str(nic.rss_equal)])
    for protocol, fields in nic.rss_fields.items():
        host.run(['ethtool', '-N', name, 'rx-flow-hash', protocol, fields])


def restoring(host: interface.Host, name: str, nic: declaration.Nic,
              ) -> list[list[str]]:
    """The commands that bring back what is now, of what is declared.

    A hash of other fields, and one over other queues, stay as they are.
    """
    words = []
    if nic.offloads:
        features = _features(host, name)
        for offload in nic.offloads:
            found = features.get(_ALIASES.get(offload, offload))
            if found is not None:
                words.append(['ethtool', '-K', name, offload, _on(found)])
    for option, wanted in ('-L', nic.queues), ('-G', nic.rings):
        now = _current(host, option.lower(), name)
        pairs = [word for kind, count in now.items() if count.isdigit()
                 for word in (kind.replace(' ', '-'), count)
                 if kind in ('rx', 'tx', 'combined')]
        if wanted and pairs:
            words.append(['ethtool', option, name, *pairs])
    return words


def describe(host: interface.Host, name: str) -> dict[str, Any]:
    """What can change a result, JSON."""
    driver = dict(
        line.split(': ', 1) for line in
        host.run(['ethtool', '-i', name], check=False).stdout.splitlines()
        if ': ' in line)
    return {
        'driver': driver.get('driver', '').strip(),
        'driver_version': driver.get('version', '').strip(),
        'firmware': driver.get('firmware-version', '').strip(),
        'queues': _current(host, '-l', name),
        'rings': _current(host, '-g', name),
        'offloads': sorted(feature for feature, on
                           in _features(host, name).items() if on),
    }


def sections(text: str) -> dict[str, dict[str, str]]:
    """'maximum' and 'current' of `ethtool -l` and `-g`: names in lower case.
    """
    found: dict[str, dict[str, str]] = {}
    into: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(':')
        if line.startswith('Pre-set maximums'):
            into = found.setdefault('maximum', {})
        elif line.startswith('Current hardware settings'):
            into = found.setdefault('current', {})
        elif value.strip():
            into[name.strip().lower()] = value.strip()
    return found


def set_queues(host: interface.Host, name: str, count: int) -> None:
    """:raises errors.BenchError: it has not so many then."""
    found = sections(host.run(['ethtool', '-l', name]).stdout)
    # Drivers have queues of both kinds together, or apart.
    most = found.get('maximum', {})
    kinds = ['combined'] if most.get('combined', '0') not in (
        '0', 'n/a') else ['rx', 'tx']
    words = [str(word) for kind in kinds for word in (kind, count)]
    host.run(['ethtool', '-L', name, *words], check=False)
    found = sections(host.run(['ethtool', '-l', name]).stdout)['current']
    for kind in kinds:
        if found.get(kind) != str(count):
            raise errors.BenchError(
                f'{name} of host {host.name} has {found.get(kind)} queues '
                f'({kind}), declared are {count}; it can have '
                f'{most.get(kind)}')


def _current(host, option, name):
    done = host.run(['ethtool', option, name], check=False)
    return sections(done.stdout).get('current', {})


def _features(host, name):
    done = host.run(['ethtool', '--json', '-k', name], check=False)
    if done.returncode:
        raise errors.BenchError(
            f'{host.name}: ethtool cannot show the offloads of {name}: '
            f'{done.stderr.strip()}')
    return {feature: value['active']
            for feature, value in json.loads(done.stdout)[0].items()
            if feature != 'ifname'}


def _on(on):
    return 'on' if on else 'off'
