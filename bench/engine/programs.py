# SPDX-License-Identifier: Apache-2.0
"""Suites that are programs of their own, and what their JSON files have.

``make bench-datapath`` and the others write the files that they always wrote;
their figures become cases here. What such a program has for each figure is the
least or the median of its rounds: a case has that as its one sample.
"""

from collections.abc import Callable
from collections.abc import Iterator
import json
import pathlib
import subprocess
import sys
from typing import Any

from bench import errors
from bench.results import model
from bench.scenarios import model as scenarios

CHECKOUT = pathlib.Path(__file__).parents[2]


def run(program: scenarios.Program, arguments: str = '',
        ) -> list[model.Case]:
    """Run its make target, and read its file.

    :raises BenchError: it failed, or the file is not what it writes.
    """
    path = CHECKOUT / program.json
    path.unlink(missing_ok=True)
    command = ['make', '--no-print-directory', program.make]
    if arguments:
        command.append(f'ARGUMENTS={arguments}')
    done = subprocess.run(command, cwd=CHECKOUT, stdout=sys.stderr,
                          check=False)
    if done.returncode:
        raise errors.BenchError(
            f'make {program.make} failed with {done.returncode}: see above')
    try:
        found = json.loads(path.read_text())
        cases = list(_READERS[program.reader](found))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise errors.BenchError(
            f'{path}: not what {program.make} writes: {error!r}') from error
    return [case for case in cases if case.samples]


def _case(name: str, unit: str, value: float, better: str = model.LOWER,
          **more: Any) -> model.Case:
    return model.Case(name, unit, better, [float(value)], **more)


def _datapath(found: Any) -> Iterator[model.Case]:
    for one in found:
        name = f'datapath/{one["case"]}'
        yield _case(name, 'ns', one['median_ns'], details=one)
        yield _case(f'{name}/ratio to floor', '1', one['ratio'])


def _tables(found: Any) -> Iterator[model.Case]:
    for one in found['updates']:
        for key in ('up_ms', 'down_ms', 'baseline_up_ms'):
            yield _case(f'tables/{one["members"]} members/'
                        f'{key.removesuffix("_ms")}', 's', one[key] / 1e3,
                        coordinates={'members': one['members']})
    for one in found['one_table']:
        weights = 'weighted' if one['weighted'] else 'equal'
        yield _case(f'tables/{one["slots"]} slots/{one["members"]} members/'
                    f'{weights}', 's', one['us'] / 1e6)


def _by_name(suite: str) -> Callable[[Any], Iterator[model.Case]]:
    """A reader of files whose keys say what each number is."""
    def read(found: Any) -> Iterator[model.Case]:
        for keys, value in _numbers(found, (suite,)):
            if keys[-1] == 'median':
                keys = keys[:-1]
            for suffix, (unit, scale, better) in _SUFFIXES.items():
                if keys[-1].endswith(suffix):
                    yield _case('/'.join((*keys[:-1],
                                          keys[-1].removesuffix(suffix)
                                          or suffix.strip('_'))),
                                unit, value * scale, better)
                    break
    return read


def _hc(found: Any) -> Iterator[model.Case]:
    """Probers are software beside each other, ours is the checker."""
    for name, part in found.items():
        if name == 'memory':  # all of it is with the others
            continue
        alone = {key: value for key, value in part.items()
                 if key not in _HC_SETTINGS}
        # What is beside them are ratios and sums of theirs.
        probers = part.get('probers', {'checker': alone})
        for software, figures in probers.items():
            for case in _by_name(f'hc/{name}')(figures):
                case.software = 'xdp' if software == 'checker' else software
                yield case


def _numbers(found: Any, above: tuple[str, ...],
             ) -> Iterator[tuple[tuple[str, ...], float]]:
    """Each number below, with its keys."""
    if isinstance(found, dict):
        for key, value in found.items():
            yield from _numbers(value, (*above, str(key)))
    elif isinstance(found, int | float) and not isinstance(found, bool):
        yield above, float(found)


_HC_SETTINGS = {'delay_s', 'seconds'}
# The end of a figure's name → unit, factor, and what is better. What ends
# otherwise (how many probes, how many rounds) is no figure.
_SUFFIXES = {
    'changes_per_s': ('1/s', 1.0, model.HIGHER),
    'cpu_us_per_probe': ('s', 1e-6, model.LOWER),
    'cores': ('CPUs', 1.0, model.LOWER),
    'seconds': ('s', 1.0, model.LOWER),
    '_ns': ('ns', 1.0, model.LOWER),
    '_us': ('s', 1e-6, model.LOWER),
    '_ms': ('s', 1e-3, model.LOWER),
    '_mb': ('bytes', 1e6, model.LOWER),
    '_s': ('s', 1.0, model.LOWER),
    'failures': ('probes', 1.0, model.LOWER),
    'false_downs': ('checks', 1.0, model.LOWER),
    'not_up_at_the_end': ('checks', 1.0, model.LOWER),
}
_READERS: dict[str, Callable[[Any], Iterator[model.Case]]] = {
    'datapath': _datapath, 'host': _by_name('host'), 'tables': _tables,
    'hc': _hc, 'control': _by_name('control')}
