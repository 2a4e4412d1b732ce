# SPDX-License-Identifier: Apache-2.0
"""Implements the command "run", from its arguments to its files."""

import argparse
from collections.abc import Sequence
import contextlib
import dataclasses
import pathlib
import signal
import subprocess
import sys

import yaml

from bench import errors
from bench import fingerprint
from bench.declarations import loader
from bench.engine import plan
from bench.engine import run as engine
from bench.engine import testbeds
from bench.report import files
from bench.results import store as stores
from bench.scenarios import alone
from bench.scenarios import load
from bench.scenarios import model as scenarios


def run(arguments: argparse.Namespace) -> int:
    """Return the exit status: 1 if cases failed, which reports name too."""
    suite = _suite(arguments)
    if arguments.plan:
        return _plan(suite, arguments)
    options = engine.Options(store=arguments.store or stores.DEFAULT,
                             provider=arguments.provider)
    with _terminated_as_interrupted():
        _build(suite.variants)
        runner = engine.Engine(suite.variants, options)
        finished = runner.run(suite.name)
        for path in files.write(finished, stores.Store(options.store),
                                arguments.output):
            print(path)
    for (case, software), why in runner.failed.items():
        print(f'{case} of {software} could not be measured: {why}',
              file=sys.stderr)
    return 1 if runner.failed else 0


def _suite(arguments):
    changes = dict(map(_change, arguments.set))
    if not arguments.scenario:
        suite = load.suite(arguments.suite, arguments.bed, changes)
    else:
        suite = scenarios.Suite(
            '+'.join(pathlib.Path(name).stem for name in arguments.scenario),
            '', None,
            tuple(variant for name in arguments.scenario
                  for variant in _scenario(name, arguments.bed, changes)))
    variants: Sequence[scenarios.Variant] = suite.variants
    if arguments.only:
        try:
            variants = load.only(variants, arguments.only)
        except LookupError as error:
            raise errors.BenchError(f'--only: {error}') from None
    if arguments.rounds:
        variants = [dataclasses.replace(variant, rounds=arguments.rounds)
                    for variant in variants]
    return dataclasses.replace(suite, variants=tuple(variants))


def _plan(suite, arguments):
    if arguments.provider is not None:
        testbeds.provider_of(arguments.provider)
    for key in testbeds.keys(suite.variants):
        testbeds.declared(key, arguments.provider)
    made = plan.steps(suite.variants)
    for step in made:
        print(f'{step.seconds:6.1f} s  {step.name}')
    total = plan.seconds(made) / 60
    limit = f' of {suite.minutes:g}' if suite.minutes else ''
    print(f'{len(made)} steps, about {total:.1f}{limit} minutes')
    return 0


def _scenario(name, bed, changes):
    try:
        return load.scenario(name, bed=bed, changes=changes)
    except KeyError as error:
        raise errors.BenchError(
            f'--set: there is nothing at {error.args[0]}') from None


def _change(text):
    key, equals, value = text.partition('=')
    if not equals:
        raise errors.BenchError(f'--set {text}: KEY=VALUE is taken, as in '
                                'measure.seconds=5')
    return key, yaml.load(value, loader.Loader)  # noqa: S506  # a safe one


def _build(variants):
    """Build what is measured and the traffic generator, as far as needed."""
    targets = [alone.KINDS[variant.measure.kind].make if variant.is_alone else
               ('bench-traffic',) for variant in variants]
    for words in dict.fromkeys(targets):
        _make(words)


def _make(words):
    done = subprocess.run(
        ['make', '--no-print-directory', '-s', *words],
        cwd=fingerprint.CHECKOUT, stdout=sys.stderr, check=False)
    if done.returncode:
        raise errors.BenchError(
            f'it cannot be built: see above; "make {" ".join(words)}" does '
            'nothing else')


@contextlib.contextmanager
def _terminated_as_interrupted():
    """Let TERM and HUP end a run like Ctrl-C, so that it cleans up."""
    before = {number: signal.signal(number, signal.default_int_handler)
              for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
