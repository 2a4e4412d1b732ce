# SPDX-License-Identifier: Apache-2.0
"""Reads and changes settings of interfaces with ethtool, on any host."""

import json
from typing import Any

from bench import errors
from bench.beds import channel
from bench.beds import declaration

# Short names that ethtool accepts, and the names that it shows.
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


def set_offloads(host: channel.Host, name: str,
                 offloads: dict[str, bool]) -> None:
    """:raises errors.BenchError: an offload does not have its new value."""
    if not offloads:
        return
    words = [word for offload, on in offloads.items()
             for word in (offload, _on(on))]
    message = host.run(['ethtool', '-K', name, *words],
                       check=False).stderr.strip()
    features = _features(host, name)
    states = {offload: features.get(_ALIASES.get(offload, offload))
              for offload in offloads}
    for offload, state in states.items():
        if state is None:
            raise errors.BenchError(
                f'{name} of host {host.name} has no offload "{offload}"; '
                f'"ethtool -k {name}" there shows which')
    for offload, on in offloads.items():
        state = states[offload]
        if state != on:
            raise errors.BenchError(
                f'offload "{offload}" of {name} of host {host.name} stays '
                f'{_on(state)}, declared is {_on(on)}'
                + (f': {message}' if message else ''))


def set_hardware(host: channel.Host, name: str,
                 nic: declaration.Nic) -> None:
    """Set queues, descriptors and the spreading of a real interface."""
    if nic.queues is not None:
        set_queues(host, name, nic.queues)
    if nic.rings:
        rings = [str(word) for pair in nic.rings.items() for word in pair]
        # Fails if nothing changes.
        host.run(['ethtool', '-G', name, *rings], check=False)
        shown = sections(host.run(['ethtool', '-g', name]).stdout)
        for kind, count in nic.rings.items():
            has = shown.get('current', {}).get(kind)
            if has != str(count):
                raise errors.BenchError(
                    f'{name} of host {host.name} has {has} descriptors of '
                    f'{kind}, declared are {count}')
    if nic.rss_equal is not None:
        host.run(['ethtool', '-X', name, 'equal', str(nic.rss_equal)])
    for protocol, fields in nic.rss_fields.items():
        host.run(['ethtool', '-N', name, 'rx-flow-hash', protocol, fields])


def restoring(host: channel.Host, name: str, nic: declaration.Nic,
              ) -> list[list[str]]:
    """Return the commands that restore the present values of what is declared.

    Hash fields and the spreading over queues are not restored.
    """
    words = []
    if nic.offloads:
        features = _features(host, name)
        for offload in nic.offloads:
            state = features.get(_ALIASES.get(offload, offload))
            if state is not None:
                words.append(['ethtool', '-K', name, offload, _on(state)])
    for option, wanted in ('-L', nic.queues), ('-G', nic.rings):
        now = _current(host, option.lower(), name)
        pairs = [word for kind, count in now.items() if count.isdigit()
                 for word in (kind.replace(' ', '-'), count)
                 if kind in ('rx', 'tx', 'combined')]
        if wanted and pairs:
            words.append(['ethtool', option, name, *pairs])
    return words


def describe(host: channel.Host, name: str) -> dict[str, Any]:
    """Return the properties that can change results, as JSON."""
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
    """Parse 'maximum' and 'current' of `ethtool -l` and `-g`; lower case."""
    parsed: dict[str, dict[str, str]] = {}
    section: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(':')
        if line.startswith('Pre-set maximums'):
            section = parsed.setdefault('maximum', {})
        elif line.startswith('Current hardware settings'):
            section = parsed.setdefault('current', {})
        elif value.strip():
            section[name.strip().lower()] = value.strip()
    return parsed


def set_queues(host: channel.Host, name: str, count: int) -> None:
    """:raises errors.BenchError: the number of queues did not change."""
    shown = sections(host.run(['ethtool', '-l', name]).stdout)
    # Drivers have combined queues, or separate ones for each direction.
    most = shown.get('maximum', {})
    kinds = ['combined'] if most.get('combined', '0') not in (
        '0', 'n/a') else ['rx', 'tx']
    words = [str(word) for kind in kinds for word in (kind, count)]
    host.run(['ethtool', '-L', name, *words], check=False)
    shown = sections(host.run(['ethtool', '-l', name]).stdout)['current']
    for kind in kinds:
        if shown.get(kind) != str(count):
            raise errors.BenchError(
                f'{name} of host {host.name} has {shown.get(kind)} queues '
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
