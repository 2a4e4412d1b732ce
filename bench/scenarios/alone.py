# SPDX-License-Identifier: Apache-2.0
"""Kinds that measure a part of the product by itself, without a test bed."""

from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
from typing import Any

_IN_DATAPATH = ('-C', 'datapath')


@dataclasses.dataclass(frozen=True)
class Alone:
    """A kind.

    :ivar module: has run(asked), which returns figures (numbers whose names
        end in their units, bench.engine.named) and details, both JSON.
    :ivar make: arguments of make that build what is measured.
    :ivar settings: defaults of settings that a scenario may change; of a list,
        a part may be chosen.
    :ivar spaces: options of unshare; what is made ends with its namespaces.
    :ivar software: what can be measured, the product or alternatives.
    """

    module: str
    make: tuple[str, ...]
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    spaces: tuple[str, ...] = ('--net', '--mount')
    software: tuple[str, ...] = ('xdp',)

    def mistakes(self, said: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield (setting, what is wrong with it)."""
        for name, value in said.items():
            if name not in self.settings:
                yield name, ('there is no such setting, but: '
                             + (', '.join(sorted(self.settings)) or 'none'))
                continue
            usual = self.settings[name]
            if isinstance(usual, float) and isinstance(value, int):
                value = float(value)
            if type(value) is not type(usual):
                yield name, f'{value!r}: as {usual!r} is, it has to be'
            elif isinstance(usual, list) and (
                    not value or any(item not in usual for item in value)):
                yield name, f'{value!r}: some of {", ".join(usual)}'
            elif isinstance(usual, int | float) and value < (
                    0 if isinstance(usual, bool) else 1):
                yield name, f'{value!r}: it has to be 1 or more'


KINDS = {
    'packets': Alone(
        'bench.parts.packets', (*_IN_DATAPATH, 'build/bench/packets'),
        {'only': '', 'runs': 41}, ()),
    'member_packets': Alone(
        'bench.parts.member_packets',
        (*_IN_DATAPATH, 'build/bench/members'), {}, ()),
    'hypervisor_packets': Alone(
        'bench.host.packets',
        (*_IN_DATAPATH, 'host', 'build/host_floor.bpf.o',
         'build/host_loop.bpf.o'), {'flows': 1, 'packets': 20000}),
    'tables': Alone('bench.tables.updates', (*_IN_DATAPATH, 'bench-tables')),
    'burst': Alone(
        'bench.hc.burst', ('bench-hc-programs',),
        {'protocol': 'http', 'targets': 28000},
        software=('xdp', 'go', 'c', 'c_tuned')),
    'steady': Alone(
        'bench.hc.steady', ('bench-hc-programs',),
        {'protocol': 'tcp', 'targets': 140000, 'delay': 5}),
    'result_to_table': Alone(
        'bench.hc.table', (*_IN_DATAPATH, 'all'),
        {'singles': 100, 'bursts': 5}),
    'control_plane': Alone(
        'bench.control.cases', (*_IN_DATAPATH, 'all'),
        {'cases': ['idle_pass', 'api_to_map', 'create_active', 'burst',
                   'cold_node', 'fleet'],
         'load_balancers': 1000, 'members': 20, 'rounds': 100, 'burst': 50,
         'idle_seconds': 65, 'fleet_load_balancers': 5000, 'fleet_nodes': 50,
         # Slightly above 20, so that at least 20 a second complete.
         'fleet_rate': 21.0, 'fleet_seconds': 90, 'lab': 'bench-control',
         'keep': False}, ()),
    'hitless': Alone(
        'bench.hitless.runs', (*_IN_DATAPATH, 'all', 'member',
                               'other-layouts'),
        {'run': 'gue',
         'waves': ['added', 'drained', 'reweighted', 'removed', 'died'],
         'modes': ['open', 'closed'], 'connections': 10000, 'late': 200,
         'per_second': 4000.0, 'nodes': 3, 'members': 9, 'compare': False,
         # Libraries that nodes use in turn, as in upgrades.
         'layouts': ['build', 'build/layout-1001']},
        ('--net', '--mount', '--pid', '--fork', '--kill-child',
         '--mount-proc')),
}
