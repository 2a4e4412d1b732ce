# SPDX-License-Identifier: Apache-2.0
"""The parts of each kind of tests: where they run, and what they need before.

Parts of the lanes "node", "tenant" and "faults" wait for timers, servers and
each other most of the time, and would notice if they did not get a processor
when they want it. What computes takes what they leave, in the lanes "lint",
"work" and "guests", which are about as long as each other.
"""

import dataclasses

from suite import kinds
from suite import parts

_BUILT = ('python', 'datapath', 'checker')


def _part(name, kind, lane, *needs, nice=0, long=False):
    return parts.Part(name, kind, lane, needs, nice, long)


def _long(name, kind, *needs, lane='work', nice=0):
    return _part(name, kind, lane, *needs, nice=nice, long=True)


PREPARATION = (
    _part('python', None, 'node'),
    _part('datapath', None, 'work'),
    _part('checker', None, 'guests'),
)

# In the order of their start within a lane.
TESTS = (
    _part('lint', 'lint', 'lint', 'python', nice=10),
    _part('unit-c', 'unit', 'lint', 'datapath', nice=10),
    _part('functional-node', 'functional', 'node', *_BUILT),
    _part('functional-control', 'functional', 'control', *_BUILT),
    _part('e2e-tenant', 'e2e', 'tenant', *_BUILT),
    _part('e2e-faults', 'e2e', 'faults', *_BUILT),
    _part('devstack', 'devstack', 'work', *_BUILT, nice=10),
    # Linters that look at what compilers have made.
    _part('lint-built', 'lint', 'work', 'python', 'datapath', 'checker',
          nice=10),
    _part('unit-python', 'unit', 'work', 'python', 'datapath', nice=10),
    _part('unit-rust', 'unit', 'guests', 'checker', nice=10),
    *(_part(f'kernel-{name}', 'kernel', 'guests', 'python', 'datapath',
            nice=19) for name in kinds.kernels()[:1]),
    _part('packets', 'functional', 'guests', 'python', 'datapath', nice=10),
)

LONG_TESTS = (
    *(_part(f'kernel-{name}-devices', 'kernels', 'work', 'python', 'datapath')
      for name in kinds.kernels()),
    *(_long(f'kernel-{name}-all', 'kernels-all', 'python', 'datapath')
      for name in kinds.kernels()),
    _long('unit-c-long', 'datapath', 'datapath'),
    _long('packets-long', 'datapath', 'python', 'datapath', lane='guests'),
    _long('functional-node-long', 'node', *_BUILT, lane='node'),
    _long('functional-control-long', 'control', *_BUILT, lane='guests'),
    _long('unit-python-long', 'control', 'python', 'datapath'),
    _long('e2e-tenant-long', 'tenant', *_BUILT, lane='tenant'),
    _long('e2e-faults-long', 'faults', *_BUILT, lane='faults'),
    *(_long(f'fault-matrix-{number}', f'fault-matrix-{number}', *_BUILT)
      for number in (1, 2, 3)),
    _long('e2e-isolation', 'isolation', *_BUILT, lane='faults'),
    _long('e2e-isolation-vms', 'isolation', *_BUILT, lane='faults'),
    _long('e2e-proxies', 'proxies', *_BUILT, lane='tenant'),
    _long('e2e-ovn', 'ovn', *_BUILT),
    _long('unit-bench', 'bench', 'python', 'datapath', lane='guests'),
    _long('functional-bench-long', 'bench', 'python', 'datapath'),
    _part('bench-commands', 'bench-commands', 'work', *_BUILT),
    _long('e2e-bench', 'bench-guests', 'python', 'datapath'),
    _long('functional-testbed', 'testbed', 'python'),
    _long('e2e-testbed', 'testbed', 'python'),
    _part('horizon', 'horizon', 'work', *_BUILT),
    _part('release', 'packages', 'work', 'python'),
    _part('packages', 'packages', 'work', 'python'),
    _part('roles', 'roles', 'work', 'python'),
    _part('devstack-lab', 'devstack-lab', 'work', *_BUILT),
    _part('demos', 'demos', 'work', *_BUILT),
    _part('debian-12', 'debian-12', 'work', 'python'),
    _part('debian-13', 'debian-13', 'work', 'python'),
    *(_part(f'octavia-api-{number}', f'octavia-api-{number}', 'work', *_BUILT)
      for number in (1, 2, 3)),
)

# Of tools/test --changed alone: linters, of the files that changed.
LINT_CHANGED = _part('lint-changed', 'lint', 'lint', *_BUILT)

ALL = (*PREPARATION, *TESTS, *LONG_TESTS, LINT_CHANGED)
BY_NAME = {part.name: part for part in ALL}


def of(names):
    """The parts of these names and those that they need, in their order.

    Where one runs in its long form, the health checker is built as it is
    installed.
    """
    needed = {name for part in ALL if part.name in names
              for name in part.needs}
    chosen = [part for part in ALL
              if part.name in names or part.name in needed]
    long = any(part.long for part in chosen)
    return [dataclasses.replace(part, long=long) if part.name == 'checker'
            else part for part in chosen]


def of_kinds(names):
    """The names of the parts of these kinds."""
    return [part.name for part in (*TESTS, *LONG_TESTS) if part.kind in names]


def alone(part):
    """A part whose needs the set-up has met."""
    return dataclasses.replace(part, needs=())
