# SPDX-License-Identifier: Apache-2.0
"""Converts runs to JSON and back without loss, with strict validation."""

from collections.abc import Iterable
import dataclasses
import datetime
import json
from typing import Any

import jsonschema

from bench import errors
from bench.declarations import shapes
from bench.results import model

FORMAT = 'octavia-xdp-bench results'
VERSION = 1

_TEXT = shapes.TEXT
_NUMBER = {'type': 'number'}
_COUNT = shapes.whole(0)


def _object(required: dict[str, Any]) -> dict[str, Any]:
    return shapes.mapping(required, *required)


def _row(*cells: dict[str, Any]) -> dict[str, Any]:
    return {'type': 'array', 'prefixItems': list(cells), 'items': False,
            'minItems': len(cells)}


CASE = _object({
    'name': _TEXT,
    'unit': _TEXT,
    'better': {'enum': list(model.BETTER)},
    'samples': {'type': 'array', 'items': _NUMBER},
    'software': _TEXT,
    'marks': {'type': 'array', 'items': _TEXT},
    'coordinates': {'type': 'object', 'additionalProperties': {
        'type': ['number', 'string']}},
    'timeline': {'type': 'array', 'items': _row(_NUMBER, _COUNT, _COUNT)},
    'events': {'type': 'array', 'items': _row(_NUMBER, {'type': 'string'})},
    'details': {'type': 'object'},
})
VERSUS = _object({'peer': _TEXT, 'case': _TEXT, 'ratio': _NUMBER,
                  'low': _NUMBER, 'high': _NUMBER})
RUN = _object({
    'suite': _TEXT,
    'commit': _TEXT,
    'started': {'type': 'string', 'format': 'date-time'},
    'fingerprint': {'type': 'object'},
    'cases': {'type': 'array', 'items': CASE, 'minItems': 1},
    'versus': {'type': 'array', 'items': VERSUS},
})
FILE = _object({
    'format': {'const': FORMAT},
    'version': {'const': VERSION},
    'runs': {'type': 'array', 'items': RUN},
})

_validate = jsonschema.Draft202012Validator


def of_run(run: model.Run) -> dict[str, Any]:
    """Convert a run, without its id in the store.

    :raises BenchError: the run is not complete.
    """
    if run.started.tzinfo is None:
        raise errors.BenchError('the start of a run needs a time zone: '
                                f'{run.started.isoformat()}')
    names = [(case.software, case.name) for case in run.cases]
    for name in names:
        if names.count(name) > 1:
            raise errors.BenchError(f'case {name[1]} of {name[0]} is there '
                                    f'twice')
    made = {
        'suite': run.suite,
        'commit': run.commit,
        'started': run.started.isoformat(),
        'fingerprint': _as_json(run.fingerprint, 'fingerprint'),
        'cases': [_of_case(case) for case in run.cases],
        'versus': [_as_json(versus, f'{versus.case} beside {versus.peer}')
                   for versus in run.versus],
    }
    _check(made, RUN, f'run of {run.suite}')
    return made


def run_of(made: dict[str, Any]) -> model.Run:
    """The reverse of of_run(), for a valid document."""
    return model.Run(
        suite=made['suite'], commit=made['commit'],
        started=datetime.datetime.fromisoformat(made['started']),
        fingerprint=made['fingerprint'],
        cases=[model.Case(**{
            **case, **{name: [tuple(row) for row in case[name]]
                       for name in ('timeline', 'events')}})
            for case in made['cases']],
        versus=[model.Versus(**versus) for versus in made['versus']])


def write(runs: Iterable[model.Run]) -> str:
    """Return a file with runs."""
    return json.dumps({'format': FORMAT, 'version': VERSION,
                       'runs': [of_run(run) for run in runs]},
                      indent=1, allow_nan=False) + '\n'


def read(text: str, name: str) -> list[model.Run]:
    """Return all runs of a file.

    :param name: name of the file, for errors.
    :raises BenchError: it is truncated, of a newer version or malformed.
    """
    try:
        made = json.loads(text, parse_constant=_no_constant)
    except ValueError as error:
        raise errors.BenchError(
            f'{name} is not JSON, or was cut off: {error}; nothing of it was '
            f'taken') from error
    if not isinstance(made, dict) or made.get('format') != FORMAT:
        raise errors.BenchError(f'{name} has no results of benchmarks: '
                                f'"format" is not {FORMAT!r}')
    version = made.get('version')
    if isinstance(version, int) and version > VERSION:
        raise errors.BenchError(
            f'{name} has version {version} of the format, this is for up to '
            f'{VERSION}: import it with a newer checkout')
    _check(made, FILE, name)
    runs = []
    for number, each in enumerate(made['runs']):
        try:
            runs.append(run_of(each))
            of_run(runs[-1])
        except (ValueError, errors.BenchError) as error:
            raise errors.BenchError(
                f'{name}: runs/{number}: {error}; nothing of it was taken',
            ) from error
    return runs


def _of_case(case):
    """:raises BenchError: JSON or the schema does not allow a figure."""
    made = _as_json(case, f'case {case.name}')
    _check(made, CASE, f'case {case.name}')
    if not made['samples'] and not made['marks']:
        raise errors.BenchError(
            f'case {case.name} has neither samples nor a mark: say in a mark '
            f'why it was not measured')
    return made


def _no_constant(text):
    raise ValueError(f'{text} is not a number')


def _as_json(value, what):
    """Return the value as it will be read, with tuples as lists."""
    try:
        if dataclasses.is_dataclass(value):
            value = dataclasses.asdict(value)
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise errors.BenchError(f'{what}: {error}') from error


def _check(made, schema, what):
    error = jsonschema.exceptions.best_match(
        _validate(schema).iter_errors(made))
    if error is not None:
        where = '/'.join(str(part) for part in error.absolute_path)
        raise errors.BenchError(
            f'{what}: {where + ": " if where else ""}{error.message}')
