# SPDX-License-Identifier: Apache-2.0
"""suite.json: a run for programs that know nothing of the store."""

import dataclasses
import json
import pathlib
from typing import Any

from bench.results import atomic
from bench.results import model
from bench.results import statistics


def made_of(run: model.Run) -> dict[str, Any]:
    """value, low and high are null of a case that has no rounds: its marks
    say why."""
    return {
        'suite': run.suite,
        'commit': run.commit,
        'started': run.started.isoformat(),
        'run': run.id,
        'fingerprint': run.fingerprint,
        'cases': [_case(case) for case in run.cases],
        'versus': [dataclasses.asdict(versus) for versus in run.versus],
    }


def text_of(run: model.Run) -> str:
    """The file."""
    return json.dumps(made_of(run), indent=1, allow_nan=False) + '\n'


def write(run: model.Run, path: pathlib.Path) -> None:
    """In place of what was there, at once."""
    atomic.write(path, text_of(run))


def _case(case):
    found = statistics.median(case.samples) if case.samples else None
    return {
        'name': case.name,
        'software': case.software,
        'unit': case.unit,
        'better': case.better,
        'value': found and found.estimate,
        'low': found and found.low,
        'high': found and found.high,
        'confidence': found and found.confidence,
        'rounds': len(case.samples),
        'marks': case.marks,
    }
