# SPDX-License-Identifier: Apache-2.0
"""Runs a suite, from its first bed to its last round."""

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
from bench.engine import step as steps
from bench.engine import testbeds
from bench.engine import versus
from bench.results import model
from bench.results import store as stores
from bench.scenarios import model as scenarios
from bench.software import catalog


@dataclasses.dataclass
class Options:
    """:param provider: provider of beds; overrides the declared one."""

    store: pathlib.Path = stores.DEFAULT
    provider: str | None = None
    out: TextIO = sys.stderr


class Engine:
    """Runs variants, round by round.

    :ivar missing: (bed, software) → why it is missing.
    :ivar failed: (variant, software) → why it could not be measured.
    """

    def __init__(self, variants: Sequence[scenarios.Variant],
                 options: Options):
        self._options = options
        self._variants = variants
        self._software = {
            name: catalog.make(name)
            for name in dict.fromkeys(
                software.name for variant in variants if not variant.is_alone
                for software in (variant.software, *variant.beside))}
        self._cases = figures.Cases()
        self.missing: dict[tuple[str, str], str] = {}
        self.failed: dict[tuple[str, str], str] = {}

    def run(self, suite: str) -> model.Run:
        """:raises BenchError: nothing could be measured, or no bed built."""
        begin = datetime.datetime.now(datetime.timezone.utc)
        store = stores.Store(self._options.store)
        with testbeds.Beds(f'r{secrets.token_hex(3)}',
                           self._options.provider) as beds:
            self._variants = beds.make(self._variants)
            self._find_missing(beds)
            watch = fingerprint.Watch(beds.all(), configuration(
                self._variants))
            run = model.Run(suite, under_test(beds.all()), begin, {})
            self._run_steps(beds, run)
            self._add_empty(run)
            run.versus += versus.of(run.cases, self._cases.ours)
            run.fingerprint = watch.end()
        store.add([run])
        return run

    def _find_missing(self, beds):
        for variant in self._variants:
            if variant.is_alone:
                continue
            bed = beds.of(variant)
            for software in (variant.software, *variant.beside):
                key = variant.bed, software.name
                if key not in self.missing:
                    why = self._software[software.name].missing(bed)
                    if why:
                        self.missing[key] = why

    def _run_steps(self, beds, run):
        made = plan.steps(self._variants, frozenset(self.missing))
        shown = progress.Progress(
            {step.name: step.seconds for step in made}, self._options.out)
        for (bed, name), why in self.missing.items():
            shown.say(f'{name} is missing on bed {bed}: {why}')
        for step in made:
            shown.begin(step.name)
            begin = time.monotonic()
            result = self._run_step(step, beds, run)
            shown.end(step.name, time.monotonic() - begin, result)

    def _run_step(self, step, beds, run):
        key = step.variant.name, step.software.name
        if key in self.failed:
            return 'left out: it failed before'
        try:
            if step.variant.is_alone:
                results = alone.run(step.variant.measure, step.software.name)
            else:
                results = steps.run(
                    step, beds.of(step.variant),
                    self._software[step.software.name])
        except errors.BenchError as error:
            self.failed[key] = str(error)
            return f'FAILED: {error}'
        cases = self._cases.add(step.variant, step.software.name,
                                step.number, results)
        if step.number == step.variant.rounds:
            run.cases += cases
        return figures.text(results)

    def _add_empty(self, run):
        """Add empty cases for missing and failed software, so that reports
        state why."""
        if not any(case.samples for case in run.cases):
            raise errors.BenchError(
                f'suite {run.suite}: no case could be measured: '
                + '; '.join(dict.fromkeys((*self.missing.values(),
                                           *self.failed.values()))))
        for variant in self._variants:
            for software in (variant.software, *variant.beside):
                why = self.missing.get((variant.bed, software.name))
                why = f'missing: {why}' if why else self.failed.get(
                    (variant.name, software.name))
                if why:
                    run.cases.append(model.Case(
                        variant.name, '1', model.LOWER, [],
                        software=software.name, marks=[why],
                        coordinates=dict(variant.coordinates)))


def under_test(beds: Sequence[interface.Bed]) -> str:
    """Return the commit or, for provisioned machines, the version of the
    node's package with a digest of its files."""
    installed = dict.fromkeys(
        has[packages.NODE] for bed in beds
        for has in (bed.installed or {}).values() if packages.NODE in has)
    return ', '.join(installed) or commit()


def commit() -> str:
    """Return the commit of this checkout, with '+' if files differ from it."""
    source = fingerprint.source()
    return f'{source["commit"]}{"+" if source["changes"] else ""}'


def configuration(variants: Sequence[scenarios.Variant]) -> dict[str, Any]:
    """Return what is measured, by name of the case."""
    cases = {}
    for variant in variants:
        cases[variant.name] = dataclasses.asdict(variant)
        for name in ('name', 'rounds', 'coordinates'):
            del cases[variant.name][name]
    return {'cases': json.loads(json.dumps(cases))}
