# SPDX-License-Identifier: Apache-2.0
"""suite.json: a run for programs that do not use the store."""

import dataclasses
import json

from bench.results import model
from bench.results import statistics


def text_of(run: model.Run) -> str:
    """Return a run as JSON; value, low and high are null for a case without
    rounds, whose marks state why."""
    return json.dumps({
        'suite': run.suite,
        'commit': run.commit,
        'started': run.started.isoformat(),
        'run': run.id,
        'fingerprint': run.fingerprint,
        'cases': [_case(case) for case in run.cases],
        'versus': [dataclasses.asdict(versus) for versus in run.versus],
    }, indent=1, allow_nan=False) + '\n'


def _case(case):
    interval = statistics.median(case.samples) if case.samples else None
    return {
        'name': case.name,
        'software': case.software,
        'unit': case.unit,
        'better': case.better,
        'value': interval and interval.estimate,
        'low': interval and interval.low,
        'high': interval and interval.high,
        'confidence': interval and interval.confidence,
        'rounds': len(case.samples),
        'marks': case.marks,
    }
