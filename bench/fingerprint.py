# SPDX-License-Identifier: Apache-2.0
"""All that can change a result, stored with it, and what of it differs."""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import enum
import fnmatch
import hashlib
import json
import pathlib
import subprocess
from typing import Any

from bench import errors
from bench import facts
from bench.beds import interface

CHECKOUT = pathlib.Path(__file__).parents[1]
LIBRARY = CHECKOUT / 'datapath/build/liboctavia_xdp.so'
_FACTS = pathlib.Path(facts.__file__).read_text()

# Marks: above these, others have a part in the result. Shares of all CPUs.
BUSY_MAX = 0.10
STEAL_MAX = 0.01
# adjtimex(2) turns a clock by 500 ppm at most, to bring it to the right time;
# what is more has been a step.
SLEW_PPM_MAX = 500
STEP_S_MIN = 0.005


class Importance(enum.IntEnum):
    """How likely a difference is the reason of different results."""

    UNDER_TEST = 0  # what is to be compared
    MACHINE = 1  # another machine or kernel: figures do not compare
    SETTINGS = 2
    LOAD = 3
    OTHER = 4


# By the first pattern that fits the name; see flat().
_IMPORTANCE = (
    (Importance.OTHER, '*machines/*/versions/python'),
    (Importance.OTHER, 'beds/*/declaration/description'),
    (Importance.OTHER, 'library'),
    (Importance.UNDER_TEST, 'commit'),
    (Importance.UNDER_TEST, 'changes'),
    (Importance.UNDER_TEST, 'configuration*'),
    (Importance.UNDER_TEST, 'beds/*/declaration/*'),
    (Importance.UNDER_TEST, 'beds/*/installed/*'),
    (Importance.UNDER_TEST, '*machines/*/versions/*'),
    (Importance.MACHINE, 'beds/*/provider'),
    (Importance.MACHINE, 'beds/*/guest/*'),
    (Importance.MACHINE, '*machines/*/kernel/release'),
    (Importance.MACHINE, '*machines/*/kernel/version'),
    (Importance.MACHINE, '*machines/*/cpu/model'),
    (Importance.MACHINE, '*machines/*/cpu/count'),
    (Importance.MACHINE, '*machines/*/hypervisor/*'),
    (Importance.MACHINE, 'beds/*/interfaces/*/driver'),
    (Importance.SETTINGS, '*machines/*'),
    (Importance.SETTINGS, 'beds/*'),
    (Importance.LOAD, 'marks*'),
)
# What is another in each run, and counts by its marks.
_PASSING = ('load/*',)


@dataclasses.dataclass(frozen=True)
class Difference:
    """:param name: as 'beds/one-node/machines/machine/cpu/model'.
    :param first: None: it is not there, or unknown.
    """

    importance: Importance
    name: str
    first: Any
    second: Any

    def __str__(self) -> str:
        return (f'{self.name}: {_shown(self.first)} → '
                f'{_shown(self.second)}')


class Watch:
    """Looks at a run from its begin to its end.

    :param configuration: of what is run, JSON: whatever can change results
        and is in no commit.
    """

    def __init__(self, beds: Sequence[interface.Bed],
                 configuration: Mapping[str, Any] | None = None,
                 checkout: pathlib.Path = CHECKOUT):
        self._beds = beds
        self._static: dict[str, Any] = {
            **source(checkout),
            'library': _digest(LIBRARY),
            'configuration': dict(configuration or {}),
            'beds': {bed.name: {**bed.fingerprint(), 'machines': {
                name: _ask(host, 'facts')
                for name, host in bed.machines.items()}} for bed in beds},
        }
        if not beds:
            # What runs without a bed runs here.
            self._static['machines'] = {'machine': facts.facts()}
        self._begin = self._load()

    def end(self) -> dict[str, Any]:
        """The fingerprint, with the load at both ends and its marks."""
        end = self._load()
        found: list[str] = []
        for machine, begin in self._begin.items():
            found += (f'{machine}: {mark}'
                      for mark in marks(begin, end[machine]))
        return {**self._static, 'load': {'begin': self._begin, 'end': end},
                'marks': found}

    def _load(self):
        if not self._beds:
            return {'machine': facts.load()}
        return {f'{bed.name}/{name}': _ask(host, 'load')
                for bed in self._beds
                for name, host in bed.machines.items()}


def source(checkout: pathlib.Path = CHECKOUT) -> dict[str, str | None]:
    """The commit, and a digest of what differs from it; None: nothing does.

    :raises errors.BenchError: it is no checkout.
    """
    changes = _git(checkout, 'diff', '--binary', 'HEAD')
    return {'commit': _git(checkout, 'rev-parse', 'HEAD').strip(),
            'changes': hashlib.sha256(changes.encode()).hexdigest()[:16]
            if changes else None}


def marks(begin: Mapping[str, Any], end: Mapping[str, Any]) -> list[str]:
    """What has disturbed a machine, by facts.load() at both ends of a run."""
    found = []
    for when, load in ('begin', begin), ('end', end):
        if load['busy'] > BUSY_MAX:
            found.append(f'other load: {load["busy"]:.0%} of the CPUs at the '
                         f'{when} of the run')
    spent = {name: end['ticks'][name] - begin['ticks'][name]
             for name in begin['ticks']}
    steal = spent['steal'] / (sum(spent.values()) or 1)
    if steal > STEAL_MAX:
        found.append(f'the hypervisor took {steal:.1%} of the CPUs (steal)')
    return found + _clock_marks(begin['clocks'], end['clocks'])


def differences(first: Mapping[str, Any], second: Mapping[str, Any],
                ) -> list[Difference]:
    """Between two fingerprints, the most important first."""
    one, other = dict(flat(first)), dict(flat(second))
    return sorted((
        Difference(importance(name), name, one.get(name), other.get(name))
        for name in one.keys() | other.keys()
        if one.get(name) != other.get(name) and not any(
            fnmatch.fnmatchcase(name, pattern) for pattern in _PASSING)),
        key=lambda found: (found.importance, found.name))


def importance(name: str) -> Importance:
    """:param name: of flat()."""
    return next((found for found, pattern in _IMPORTANCE
                 if fnmatch.fnmatchcase(name, pattern)), Importance.OTHER)


def flat(value: Any, name: str = '') -> Iterable[tuple[str, Any]]:
    """(name, value) of all that is no mapping, names joined by slashes."""
    if isinstance(value, Mapping) and value:
        for key in value:
            yield from flat(value[key], f'{name}/{key}' if name else key)
    elif name:
        yield name, value


def _clock_marks(begin, end):
    """Steps of the clock, and a machine that slept."""
    passed = {name: end[name] - begin[name] for name in begin}
    if passed['monotonic'] < 0:
        return ['the machine has been booted meanwhile']
    found = []
    step = passed['realtime'] - passed['boottime']
    if abs(step) > STEP_S_MIN + SLEW_PPM_MAX * 1e-6 * passed['boottime']:
        found.append(f'the clock (CLOCK_REALTIME) was set by {step:+.3f} s')
    slept = passed['boottime'] - passed['monotonic']
    if slept > STEP_S_MIN:
        found.append(f'the machine was suspended for {slept:.1f} s')
    return found


def _ask(host, what):
    done = host.run(['python3', '-', what], stdin=_FACTS)
    return json.loads(done.stdout)


def _git(checkout, *words):
    done = subprocess.run(['git', '-C', checkout, *words], text=True,
                          errors='replace', capture_output=True, check=False)
    if done.returncode:
        raise errors.BenchError(
            f'{checkout}: git {words[0]}: {done.stderr.strip()}')
    return done.stdout


def _digest(path):
    if not path.exists():
        return None
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _shown(value):
    return 'nothing' if value is None else json.dumps(value)
