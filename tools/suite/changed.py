# SPDX-License-Identifier: Apache-2.0
"""What ``tools/test --changed`` runs: linters and tests that a change reaches.

Unit, C and Rust tests run whenever the change reaches them. Functional tests
run from the nearest on until ``FUNCTIONAL_S`` are used up, by what each took
here last; CI runs the others. End-to-end tests run only if they themselves or
their support changed.
"""

import dataclasses
import subprocess

from suite import kinds
from suite import plan
from suite import reach

# Altogether a usual change takes three minutes at most.
FUNCTIONAL_S = 80
# Of a module that has not run here yet.
_USUAL_S = 10
# Tests of how the tree is arranged, which no single file is responsible for.
_ALWAYS = tuple(f'octavia_xdp_provider.tests.unit.{name}' for name in (
    'test_comments', 'test_layout', 'test_reach'))
_FUNCTIONAL = ('functional-node', 'functional-control', 'packets')
_END_TO_END = ('e2e-tenant', 'e2e-faults', 'e2e-isolation',
               'e2e-isolation-vms', 'e2e-ovn')
# What end-to-end tests share, and what only they use.
_SUPPORT = reach.TESTS + 'e2e/support/'


@dataclasses.dataclass
class Selection:
    """What a change reaches.

    :param parts: part → words that select its tests; none: all of them.
    :param files: those that changed and are there, for linters.
    :param left: modules of tests that are reached and left to CI.
    :param kinds: long kinds that the change can break.
    :param unmapped: files that nothing maps, so that all is run.
    """

    parts: dict
    files: list
    left: list
    kinds: list
    unmapped: list


def base_of(name):
    """The commit that a change is compared with: where it left this name."""
    return subprocess.run(
        ['git', 'merge-base', name, 'HEAD'], cwd=reach.ROOT, check=True,
        capture_output=True, text=True).stdout.strip()


def module(path):
    return path.removesuffix('.py').replace('/', '.')


def select(tree, files, gone=(), seconds=None):
    """A Selection for these changed files.

    :param gone: files that the change removed: the others of their folders
        stand for them.
    :param seconds: module of functional tests → how long it took last.
    """
    changed = list(files)
    for path in gone:
        folder = path.rpartition('/')[0] + '/'
        changed += [name for name in tree.files if name.startswith(folder)
                    and '/' not in name.removeprefix(folder)]
    unmapped = tree.unmapped(changed)
    if unmapped:
        parts = {part.name: [] for part in plan.TESTS
                 if part.kind in ('lint', 'unit', 'functional')}
        return Selection(parts, list(files), [], list(kinds.LONG_NAMES),
                         unmapped)
    steps = tree.distances(changed)
    parts = {'lint-changed': list(files)} if files else {}
    tests = {name: sorted((path for path in steps if reach.is_python_test(path)
                           and path.startswith(folder)),
                          key=lambda path: (steps[path], path))
             for name, folder in reach.FOLDERS.items()}
    if files:
        parts['unit-python'] = list(dict.fromkeys(
            [*map(module, tests['unit-python']), *_ALWAYS]))
    compiled = [path.rpartition('/')[2].removesuffix('.c') for path in steps
                if reach.is_c_test(path)]
    if compiled:
        parts['unit-c'] = sorted(compiled)
    if any(path.startswith(('hc-agent/src/', 'hc-agent/tests/', 'hc-agent/C',
                            'octavia_xdp_provider/contracts/'))
           for path in changed):
        parts['unit-rust'] = []
    left = _add_functional(parts, tests, steps, seconds or {})
    _add_end_to_end(parts, tests, changed, steps)
    return Selection(parts, list(files), left, tree.kinds(changed), [])


def _add_functional(parts, tests, steps, seconds):
    """Add the nearest functional tests; those that are left to CI."""
    left, used = [], 0
    reached = sorted(
        (steps[path], path, name) for name in _FUNCTIONAL
         for path in tests[name])
    for distance, path, name in reached:
        cost = seconds.get(module(path), _USUAL_S)
        # What itself changed runs whatever it takes.
        if distance == 0 or used + cost <= FUNCTIONAL_S:
            used += cost
            parts.setdefault(name, []).append(module(path))
        else:
            left.append(module(path))
    return left


def _add_end_to_end(parts, tests, changed, steps):
    own = {path for path in changed if path.startswith(_SUPPORT)}
    for name in _END_TO_END:
        chosen = [path for path in tests[name]
                  if steps[path] == 0 or (own and steps[path] == 1)]
        if chosen:
            parts[name] = [module(path) for path in chosen]


def recorded_seconds(stestr, name):
    """Module → seconds of its tests in the last run of a part, if any."""
    folder = reach.FOLDERS[name].removeprefix(reach.TESTS).rstrip('/')
    listed = subprocess.run(
        [stestr, '--repo-url', f'build/stestr/{folder}', 'slowest', '--all'],
        cwd=reach.ROOT, check=False, capture_output=True, text=True).stdout
    seconds = {}
    for line in listed.splitlines():
        test, _, figure = line.strip().rpartition(' ')
        name = test.strip().rpartition('.')[0].rpartition('.')[0]
        try:
            seconds[name] = seconds.get(name, 0) + float(figure)
        except ValueError:
            continue
    return seconds


def describe(selection):
    """Lines that say what is not run here, but by CI."""
    if selection.unmapped:
        yield ('nothing in tools/suite/reach.toml maps '
               f'{", ".join(selection.unmapped)}: all tests run')
    yield 'CI runs besides: make test' + ''.join(
        f', {name}' for name in selection.kinds) + ', and one kind in turn'
    if selection.left:
        yield (f'of the functional tests that are reached, {FUNCTIONAL_S} s '
               'hold the nearest; left to CI: '
               + ', '.join(name.rpartition('.')[2]
                           for name in selection.left))
