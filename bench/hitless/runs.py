# SPDX-License-Identifier: Apache-2.0
"""Kinds of runs: each makes one entry of the result."""

import dataclasses
import functools
import itertools
import pathlib
import sys

from bench.hitless import bed as beds
from bench.hitless import connections as clients
from bench.hitless import nat_bed
from bench.hitless import nat_waves
from bench.hitless import waves
from lab import paths
from octavia_xdp_provider.node import datapath


@dataclasses.dataclass(frozen=True)
class Options:
    """``connections``: at a time. ``late``: how many more begin after each
    change. ``per_second``: exchanges of all of them. ``compares``: once more
    without second chances or peers. ``libraries``: that nodes have in turn."""

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
        return [_with_flag(bed, connections, flag, options) for flag in flags]


def _with_flag(bed, connections, flag, options):
    bed.settings = bed.settings._replace(flags=flag)
    made = waves.Waves(bed, connections, options.connections, options.late)
    name = bed.settings.encapsulation.name.lower()
    return {'encapsulation': name, 'second_chance': bool(flag),
            'modes': list(options.modes),
            **_in_waves(name, bed, made, options.modes, options)}


def nat(options):
    """Waves of changes of members that nobody has prepared, while nodes are
    drained by plan."""
    return [_nat(options, hands_on) for hands_on in (
        (True, False) if options.compares else (True,))]


def _nat(options, hands_on):
    with (nat_bed.NatBed(options.nodes, options.members, options.libraries,
                         hands_on) as bed,
          clients.Connections(bed.lab, beds.VIP, beds.PORT,
                              options.per_second) as connections):
        made = nat_waves.NatWaves(bed, connections, options.connections,
                                  options.late)
        # Slots of NAT are never open, and silence ends its flows.
        return {'encapsulation': 'nat', 'second_chance': False,
                'peers': hands_on,
                **_in_waves('nat', bed, made, (waves.OPEN,), options)}


def _in_waves(title, bed, made, modes, options):
    handed_on = bed.handed_on()
    for mode, name in itertools.product(modes, options.kinds):
        made.begin(waves.usual(bed.members), mode)
        waves.KINDS[name](made, bed.members)
        made.end()
        _say(f'{title}, {name}, slots {mode}', made.counts)
    made.close()
    return {'nodes': options.nodes, 'members': options.members,
            'waves': list(options.kinds),
            'handed_on': bed.handed_on() - handed_on, **entry(made.counts)}


def entry(counts):
    """What every kind of run says; ``connections``: live at a time."""
    found = dataclasses.asdict(counts)
    return {'connections': found.pop('live'),
            'opened': found.pop('connections'), **found}


def _say(what, counts):
    print(f'{what}: {counts.connections} connections so far, '
          f'{counts.broken} broken, '
          f'{counts.broken_of_dead_members} of dead members',
          file=sys.stderr, flush=True)


# Name → a function of Options that makes entries.
KINDS = {
    **{one.name.lower(): functools.partial(second_chance, one)
       for one in beds.VERSIONS},
    'nat': nat}
