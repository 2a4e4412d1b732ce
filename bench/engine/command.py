# SPDX-License-Identifier: Apache-2.0
"""The command "run": from its arguments to its files."""

import argparse
from collections.abc import Sequence
import contextlib
import dataclasses
import datetime
import pathlib
import signal
import subprocess
import sys

from bench import errors
from bench import fingerprint
from bench.engine import plan
from bench.engine import programs
from bench.engine import registry
from bench.engine import run as engine
from bench.engine import testbeds
from bench.engine import versus
from bench.report import files
from bench.results import model
from bench.results import store as stores
from bench.scenarios import load
from bench.scenarios import model as scenarios


def run(arguments: argparse.Namespace) -> int:
    """Exit status: 1 if cases failed, which the report names too."""
    suite = _suite(arguments)
    if arguments.plan:
        return _plan(suite, arguments)
    options = engine.Options(store=arguments.store or stores.DEFAULT,
                             traffic=arguments.traffic,
                             provider=arguments.provider)
    with _terminated_as_interrupted():
        if suite.program:
            found = _run_program(suite, options)
            failed: dict[tuple[str, str], str] = {}
        else:
            _build_traffic()
            made = engine.Engine(suite.variants, options)
            found = made.run(suite.name)
            failed = made.failed
        for path in files.write(found, stores.Store(options.store),
                                arguments.output):
            print(path)
    for (case, software), why in failed.items():
        print(f'{case} of {software} could not be measured: {why}',
              file=sys.stderr)
    return 1 if failed else 0


def _suite(arguments):
    if not arguments.scenario:
        found = load.suite(arguments.suite, arguments.bed)
        if found.program and (arguments.only or arguments.rounds
                              or arguments.bed):
            raise errors.BenchError(
                f'suite {found.name} is "make {found.program.make}": it has '
                'no cases to choose, no rounds and no bed')
    else:
        found = scenarios.Suite(
            '+'.join(pathlib.Path(name).stem for name in arguments.scenario),
            '', None,
            tuple(variant for name in arguments.scenario
                  for variant in load.scenario(name, bed=arguments.bed)))
    variants: Sequence[scenarios.Variant] = found.variants
    if arguments.only:
        try:
            variants = load.only(variants, arguments.only)
        except LookupError as error:
            raise errors.BenchError(f'--only: {error}') from None
    if arguments.rounds:
        variants = [dataclasses.replace(one, rounds=arguments.rounds)
                    for one in variants]
    return dataclasses.replace(found, variants=tuple(variants))


def _plan(suite, arguments):
    registry.source_of(arguments.traffic)
    if arguments.provider is not None:
        registry.provider_of(arguments.provider)
    if suite.program:
        print(f'make {suite.program.make}')
        return 0
    for key in dict.fromkeys(map(testbeds.key_of, suite.variants)):
        testbeds.declared(key, arguments.provider)
    made = plan.steps(suite.variants)
    for step in made:
        print(f'{step.seconds:6.1f} s  {step.name}')
    total = plan.seconds(made) / 60
    limit = f' of {suite.minutes:g}' if suite.minutes else ''
    print(f'{len(made)} steps, about {total:.1f}{limit} minutes')
    return 0


def _build_traffic():
    """The generator, where it is not built, or older than its source."""
    done = subprocess.run(
        ['make', '--no-print-directory', '-s', 'bench-traffic'],
        cwd=fingerprint.CHECKOUT, stdout=sys.stderr, check=False)
    if done.returncode:
        raise errors.BenchError(
            'the generator cannot be built: see above; "make bench-traffic" '
            'does nothing else')


def _run_program(suite, options):
    found = model.Run(suite.name, engine.commit(),
                      datetime.datetime.now(datetime.timezone.utc), {})
    watch = fingerprint.Watch([], {'make': suite.program.make})
    store = stores.Store(options.store)
    with store.recording(found):
        for case in programs.run(suite.program):
            store.add(found, case)
        found.versus += versus.of(found.cases, dict.fromkeys(
            (case.name for case in found.cases), 'xdp'))
        found.fingerprint = watch.end()
    return found


@contextlib.contextmanager
def _terminated_as_interrupted():
    """TERM and HUP end a run as Ctrl-C does: all is taken down."""
    before = {number: signal.signal(number, signal.default_int_handler)
              for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
