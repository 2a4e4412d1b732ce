# SPDX-License-Identifier: Apache-2.0
"""A suite from its first bed to its last round."""

from collections.abc import Sequence
import dataclasses
import datetime
import json
import pathlib
import secrets
import sys
import time
from typing import Any
from typing import TextIO

from bench import errors
from bench import fingerprint
from bench.beds import interface
from bench.beds import packages
from bench.engine import alone
from bench.engine import figures
from bench.engine import plan
from bench.engine import progress
from bench.engine import registry
from bench.engine import step as steps
from bench.engine import testbeds
from bench.engine import versus
from bench.results import model
from bench.results import store as stores
from bench.scenarios import model as scenarios


@dataclasses.dataclass
class Options:
    """:param traffic: name of the source.
    :param provider: of beds, in place of the declared one.
    """

    store: pathlib.Path = stores.DEFAULT
    traffic: str = 'own'
    provider: str | None = None
    out: TextIO = sys.stderr


class Engine:
    """Runs variants, round by round.

    :ivar missing: (bed, software) → why it is not there.
    :ivar failed: (variant, software) → why it could not be measured.
    """

    def __init__(self, variants: Sequence[scenarios.Variant],
                 options: Options):
        self._options = options
        self._variants = variants
        self._source = registry.source_of(options.traffic)
        self._software = {
            name: registry.software_of(name)
            for name in dict.fromkeys(
                one.name for variant in variants if not variant.is_alone
                for one in (variant.software, *variant.beside))}
        self._cases = figures.Cases()
        self.missing: dict[tuple[str, str], str] = {}
        self.failed: dict[tuple[str, str], str] = {}

    def run(self, suite: str) -> model.Run:
        """:raises BenchError: nothing could be measured, or a bed not made."""
        begin = datetime.datetime.now(datetime.timezone.utc)
        store = stores.Store(self._options.store)
        with testbeds.Beds(f'r{secrets.token_hex(3)}',
                           self._options.provider) as beds:
            self._variants = beds.make(self._variants)
            self._look_for_software(beds)
            watch = fingerprint.Watch(beds.all(), configuration(
                self._variants, self._options.traffic))
            run = model.Run(suite, under_test(beds.all()), begin, {})
            with store.recording(run):
                self._run_steps(beds, store, run)
                self._add_empty(store, run)
                run.versus += versus.of(run.cases, self._cases.ours)
                run.fingerprint = watch.end()
        return run

    def _look_for_software(self, beds):
        for variant in self._variants:
            if variant.is_alone:
                continue
            bed = beds.of(variant)
            for one in (variant.software, *variant.beside):
                key = variant.bed, one.name
                if key not in self.missing:
                    why = self._software[one.name].missing(bed)
                    if why:
                        self.missing[key] = why

    def _run_steps(self, beds, store, run):
        made = plan.steps(self._variants, frozenset(self.missing))
        shown = progress.Progress(
            {step.name: step.seconds for step in made}, self._options.out)
        for (bed, name), why in self.missing.items():
            shown.say(f'{name} is missing on bed {bed}: {why}')
        for step in made:
            shown.begin(step.name)
            begin = time.monotonic()
            result = self._run_step(step, beds, store, run)
            shown.end(step.name, time.monotonic() - begin, result)

    def _run_step(self, step, beds, store, run):
        key = step.variant.name, step.software.name
        if key in self.failed:
            return 'left out: it failed before'
        try:
            if step.variant.is_alone:
                found = alone.run(step.variant.measure, step.software.name)
            else:
                found = steps.run(
                    step, beds.of(step.variant),
                    self._software[step.software.name], self._source)
        except errors.BenchError as error:
            self.failed[key] = str(error)
            return f'FAILED: {error}'
        cases = self._cases.add(step.variant, step.software.name,
                                step.number, found)
        if step.number == step.variant.rounds:
            for case in cases:
                store.add(run, case)
        return figures.text(found)

    def _add_empty(self, store, run):
        """Cases without a figure, of what is missing or failed: so that a
        report says why."""
        if not any(case.samples for case in run.cases):
            raise errors.BenchError(
                f'suite {run.suite}: no case could be measured: '
                + '; '.join(dict.fromkeys((*self.missing.values(),
                                           *self.failed.values()))))
        for variant in self._variants:
            for one in (variant.software, *variant.beside):
                why = self.missing.get((variant.bed, one.name))
                why = f'missing: {why}' if why else self.failed.get(
                    (variant.name, one.name))
                if why:
                    store.add(run, model.Case(
                        variant.name, '1', model.LOWER, [], software=one.name,
                        marks=[why], coordinates=dict(variant.coordinates)))


def under_test(beds: Sequence[interface.Bed]) -> str:
    """The commit; or, of machines that were provisioned, what they have:
    version of the node's package, and a digest of its files."""
    installed = dict.fromkeys(
        has[packages.NODE] for bed in beds
        if isinstance(bed, interface.Provisioned)
        for has in bed.installed.values() if packages.NODE in has)
    return ', '.join(installed) or commit()


def commit() -> str:
    """Of this checkout; with '+' if its files differ from that."""
    found = fingerprint.source()
    return f'{found["commit"]}{"+" if found["changes"] else ""}'


def configuration(variants: Sequence[scenarios.Variant], traffic: str,
                  ) -> dict[str, Any]:
    """What is measured, by name of the case."""
    told = {}
    for variant in variants:
        told[variant.name] = dataclasses.asdict(variant)
        for name in ('name', 'rounds', 'coordinates'):
            del told[variant.name][name]
    return {'traffic': traffic, 'cases': json.loads(json.dumps(told))}
