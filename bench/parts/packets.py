# SPDX-License-Identifier: Apache-2.0
"""Nanoseconds per packet, measured by programs in C."""

import json
import subprocess
from typing import Any

from bench.engine import alone

_FOLDER = alone.CHECKOUT / 'datapath/build/bench'


def run_program(name: str, *words: str) -> list[dict[str, Any]]:
    """Run a program; return the objects that it prints, one a line."""
    done = subprocess.run([_FOLDER / name, *words], check=True, text=True,
                          stdout=subprocess.PIPE)
    return [json.loads(line) for line in done.stdout.splitlines()
            if line.startswith('{')]


def run(asked: alone.Asked) -> tuple[dict[str, Any], Any]:
    """Measure the forwarding program, by kind of packet."""
    cases = run_program('packets', asked.settings['only'],
                        str(asked.settings['runs']))
    figures: dict[str, Any] = {}
    for case in cases:
        figures[f'{case["case"]}_ns'] = case['median_ns']
        figures[case['case']] = {'ratio to floor': case['ratio']}
    return figures, cases
