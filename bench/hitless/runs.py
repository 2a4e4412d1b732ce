# SPDX-License-Identifier: Apache-2.0
"""Kinds of runs, each of which yields entries of the result."""

import dataclasses
import functools
import itertools
import pathlib
import resource
import subprocess
import sys
import types

from bench.hitless import bed as beds
from bench.hitless import connections as clients
from bench.hitless import nat_bed
from bench.hitless import nat_waves
from bench.hitless import waves
from lab import paths
from octavia_xdp_provider.node import datapath


def second_chance(encapsulation, options):
    """Run waves of changes of members, with an encapsulation that can carry
    an alternative."""
    settings = datapath.Settings(encapsulation=encapsulation)
    flags = [datapath.ServiceFlag.SECOND_CHANCE]
    if options.compare:
        flags.append(datapath.ServiceFlag(0))
    with (beds.Bed(options.nodes, options.members, settings,
                   options.libraries) as bed,
          clients.Connections(bed.lab, beds.VIP, beds.PORT,
                              options.per_second) as connections):
        return [_with_flag(bed, connections, flag, options) for flag in flags]


def _with_flag(bed, connections, flag, options):
    bed.settings = bed.settings._replace(flags=flag)
    made = waves.Waves(bed, connections, options.connections, options.late)
    name = bed.settings.encapsulation.name.lower()
    return {'encapsulation': name, 'second_chance': bool(flag),
            'modes': options.modes,
            **_in_waves(name, bed, made, options.modes, options)}


def nat(options):
    """Run waves of changes of unprepared members, while nodes are drained as
    planned."""
    return [_nat(options, hands_on) for hands_on in (
        (True, False) if options.compare else (True,))]


def _nat(options, hands_on):
    with (nat_bed.NatBed(options.nodes, options.members, options.libraries,
                         hands_on) as bed,
          clients.Connections(bed.lab, beds.VIP, beds.PORT,
                              options.per_second) as connections):
        made = nat_waves.NatWaves(bed, connections, options.connections,
                                  options.late)
        # Slots of NAT are never open, and its flows end in silence.
        return {'encapsulation': 'nat', 'second_chance': False,
                'peers': hands_on,
                **_in_waves('nat', bed, made, (waves.OPEN,), options)}


def _in_waves(title, bed, made, modes, options):
    handed_on = bed.handed_on()
    for mode, name in itertools.product(modes, options.waves):
        made.begin(waves.usual(bed.members), mode)
        waves.KINDS[name](made, bed.members)
        made.end()
        _log(f'{title}, {name}, slots {mode}', made.counts)
    made.close()
    return {'nodes': options.nodes, 'members': options.members,
            'waves': options.waves,
            'handed_on': bed.handed_on() - handed_on, **entry(made.counts)}


def entry(counts):
    """Return counts as a result; ``connections``: live at a time."""
    values = dataclasses.asdict(counts)
    return {'connections': values.pop('live'),
            'opened': values.pop('connections'), **values}


def _log(what, counts):
    print(f'{what}: {counts.connections} connections so far, '
          f'{counts.broken} broken, '
          f'{counts.broken_of_dead_members} of dead members',
          file=sys.stderr, flush=True)


# Name → a function of Options that makes entries.
KINDS = {
    **{encapsulation.name.lower(): functools.partial(
        second_chance, encapsulation) for encapsulation in beds.VERSIONS},
    'nat': nat}
# setting → minimum and maximum; ports of the client remain in use for a
# minute.
_BOUNDS = {'connections': (1, 20000), 'late': (1, 2000), 'nodes': (2, 16),
           'members': (6, 64), 'per_second': (1, 1000000)}
# Open files in addition to connections.
_SPARE = 100


def run(asked):
    """Return counts of connections; "without": with nothing to save them."""
    settings = asked.settings
    _check(settings)
    _raise_file_limit(settings['connections'], settings['late'])
    # The lab's namespaces have names in /run. It is mounted privately, so that
    # the kernel removes everything however this process ends.
    folder = paths.BUILD / 'lab'
    folder.mkdir(parents=True, exist_ok=True)
    for place in pathlib.Path('/run'), folder:
        subprocess.run(['mount', '-t', 'tmpfs', 'tmpfs', place], check=True)
    entry, *without = KINDS[settings['run']](types.SimpleNamespace(
        **settings, libraries=tuple(
            paths.CHECKOUT / 'datapath' / name / paths.LIBRARY.name
            for name in settings['layouts'])))
    return {**_counts(entry), 'without': {
        name: value for other in without for name, value
        in _counts(other).items()}}, [entry, *without]


def _counts(entry):
    return {name: value for name, value in entry.items()
            if name in ('broken', 'beyond', 'broken_beyond', 'not_opened',
                        'broken_of_failed_nodes')}


def _check(settings):
    if settings['run'] not in KINDS:
        raise ValueError(f'run: one of {", ".join(KINDS)}')
    for name, (least, most) in _BOUNDS.items():
        if not least <= settings[name] <= most:
            raise ValueError(f'{name}: from {least} to {most}')
    if not beds.has_hash_seed():
        raise OSError('this needs Linux 6.11: there is no sysctl '
                      'net.ipv4.fib_multipath_hash_seed, by which the router '
                      'spreads all connections again')


def _raise_file_limit(connections, late):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + waves.LATE_TIMES * late + _SPARE
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE,
                           (wanted, max(hard, wanted)))
