# SPDX-License-Identifier: Apache-2.0
"""Kinds of runs: each makes one entry of the result."""

import dataclasses
import functools
import itertools
import pathlib
import sys

from bench.hitless import bed as beds
from bench.hitless import connections as clients
from bench.hitless import waves
from lab import paths
from octavia_xdp_provider.node import datapath


@dataclasses.dataclass(frozen=True)
class Options:
    """``connections``: at a time. ``late``: how many more begin after each
    change. ``per_second``: exchanges of all of them. ``compares``: once more
    without second chances. ``libraries``: that nodes have in turn."""

    connections: int
    late: int
    per_second: float
    members: int
    nodes: int
    compares: bool = False
    kinds: tuple[str, ...] = tuple(waves.KINDS)
    modes: tuple[str, ...] = waves.MODES
    libraries: tuple[pathlib.Path, ...] = (paths.LIBRARY,)


def second_chance(encapsulation, options):
    """Waves of changes of members, with an encapsulation that can carry an
    alternative."""
    settings = datapath.Settings(encapsulation=encapsulation)
    flags = [datapath.ServiceFlag.SECOND_CHANCE]
    if options.compares:
        flags.append(datapath.ServiceFlag(0))
    with (beds.Bed(options.nodes, options.members, settings,
                   options.libraries) as bed,
          clients.Connections(bed.lab, beds.VIP, beds.PORT,
                              options.per_second) as connections):
        return [_in_waves(bed, connections, flag, options) for flag in flags]


def _in_waves(bed, connections, flag, options):
    bed.settings = bed.settings._replace(flags=flag)
    made = waves.Waves(bed, connections, options.connections, options.late)
    handed_on = _handed_on(bed)
    for mode, name in itertools.product(options.modes, options.kinds):
        made.begin(waves.usual(bed.members), mode)
        waves.KINDS[name](made, bed.members)
        made.end()
        _say(bed.settings, name, mode, made.counts)
    connections.close()
    return {'encapsulation': bed.settings.encapsulation.name.lower(),
            'second_chance': bool(flag),
            'nodes': options.nodes, 'members': options.members,
            'modes': list(options.modes), 'waves': list(options.kinds),
            'handed_on': _handed_on(bed) - handed_on, **entry(made.counts)}


def _handed_on(bed):
    return sum(bed.counters(member)['handed_on'] for member in bed.members)


def entry(counts):
    """What every kind of run says; ``connections``: live at a time."""
    found = dataclasses.asdict(counts)
    return {'connections': found.pop('live'),
            'opened': found.pop('connections'), **found}


def _say(settings, name, mode, counts):
    print(f'{settings.encapsulation.name.lower()}, {name}, slots {mode}: '
          f'{counts.connections} connections so far, {counts.broken} broken, '
          f'{counts.broken_of_dead_members} of dead members',
          file=sys.stderr, flush=True)


# Name → a function of Options that makes entries.
KINDS = {
    one.name.lower(): functools.partial(second_chance, one)
    for one in beds.VERSIONS}
