# SPDX-License-Identifier: Apache-2.0
"""Fingerprints: all that can change a result, and their differences."""

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

# Shares of all CPUs above which other load affects results and is marked.
BUSY_MAX = 0.10
STEAL_MAX = 0.01
# adjtimex(2) slews a clock by at most 500 ppm; anything more is a step.
SLEW_PPM_MAX = 500
STEP_S_MIN = 0.005


class Importance(enum.IntEnum):
    """How likely a difference is the reason of different results."""

    UNDER_TEST = 0  # the subject of the comparison
    MACHINE = 1  # another machine or kernel: figures are not comparable
    SETTINGS = 2
    LOAD = 3
    OTHER = 4


# The first pattern that matches the name applies; see flat().
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
# Different in each run; relevant only through marks.
_PASSING = ('load/*',)


@dataclasses.dataclass(frozen=True)
class Difference:
    """:param name: for example 'beds/one-node/machines/machine/cpu/model'.
    :param first: None if missing or unknown.
    """

    importance: Importance
    name: str
    first: Any
    second: Any

    def __str__(self) -> str:
        return (f'{self.name}: {_shown(self.first)} → '
                f'{_shown(self.second)}')


class Watch:
    """Takes the fingerprint of a run from its start to its end.

    :param configuration: what can change results and is in no commit, as
        JSON.
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
            # Without a bed, everything runs on this machine.
            self._static['machines'] = {'machine': facts.facts()}
        self._begin = self._load()

    def end(self) -> dict[str, Any]:
        """Return the fingerprint, with the load at both ends and marks."""
        end = self._load()
        texts: list[str] = []
        for machine, begin in self._begin.items():
            texts += (f'{machine}: {mark}'
                      for mark in marks(begin, end[machine]))
        return {**self._static, 'load': {'begin': self._begin, 'end': end},
                'marks': texts}

    def _load(self):
        if not self._beds:
            return {'machine': facts.load()}
        return {f'{bed.name}/{name}': _ask(host, 'load')
                for bed in self._beds
                for name, host in bed.machines.items()}


def source(checkout: pathlib.Path = CHECKOUT) -> dict[str, str | None]:
    """Return the commit, and a digest of changes, None without any.

    :raises errors.BenchError: it is no checkout.
    """
    changes = _git(checkout, 'diff', '--binary', 'HEAD')
    return {'commit': _git(checkout, 'rev-parse', 'HEAD').strip(),
            'changes': hashlib.sha256(changes.encode()).hexdigest()[:16]
            if changes else None}


def marks(begin: Mapping[str, Any], end: Mapping[str, Any]) -> list[str]:
    """Return disturbances by facts.load() at both ends of a run."""
    texts = []
    for when, load in ('begin', begin), ('end', end):
        if load['busy'] > BUSY_MAX:
            texts.append(f'other load: {load["busy"]:.0%} of the CPUs at the '
                         f'{when} of the run')
    spent = {name: end['ticks'][name] - begin['ticks'][name]
             for name in begin['ticks']}
    steal = spent['steal'] / (sum(spent.values()) or 1)
    if steal > STEAL_MAX:
        texts.append(f'the hypervisor took {steal:.1%} of the CPUs (steal)')
    return texts + _clock_marks(begin['clocks'], end['clocks'])


def differences(first: Mapping[str, Any], second: Mapping[str, Any],
                ) -> list[Difference]:
    """Return differences of two fingerprints, the most important first."""
    left, right = dict(flat(first)), dict(flat(second))
    return sorted((
        Difference(importance(name), name, left.get(name), right.get(name))
        for name in left.keys() | right.keys()
        if left.get(name) != right.get(name) and not any(
            fnmatch.fnmatchcase(name, pattern) for pattern in _PASSING)),
        key=lambda difference: (difference.importance, difference.name))


def importance(name: str) -> Importance:
    """:param name: a name from flat()."""
    return next((level for level, pattern in _IMPORTANCE
                 if fnmatch.fnmatchcase(name, pattern)), Importance.OTHER)


def flat(value: Any, name: str = '') -> Iterable[tuple[str, Any]]:
    """Yield (path joined by slashes, value) of all nested values."""
    if isinstance(value, Mapping) and value:
        for key in value:
            yield from flat(value[key], f'{name}/{key}' if name else key)
    elif name:
        yield name, value


def _clock_marks(begin, end):
    """Return marks for clock steps and suspension."""
    passed = {name: end[name] - begin[name] for name in begin}
    if passed['monotonic'] < 0:
        return ['the machine has been booted meanwhile']
    texts = []
    step = passed['realtime'] - passed['boottime']
    if abs(step) > STEP_S_MIN + SLEW_PPM_MAX * 1e-6 * passed['boottime']:
        texts.append(f'the clock (CLOCK_REALTIME) was set by {step:+.3f} s')
    slept = passed['boottime'] - passed['monotonic']
    if slept > STEP_S_MIN:
        texts.append(f'the machine was suspended for {slept:.1f} s')
    return texts


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
