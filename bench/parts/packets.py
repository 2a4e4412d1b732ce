# SPDX-License-Identifier: Apache-2.0
"""Nanoseconds per packet of programs in C, which run packets themselves."""

import json
import pathlib
import subprocess
import tempfile
from typing import Any

from bench.engine import alone

_FOLDER = alone.CHECKOUT / 'datapath/build/bench'


def run_program(name: str, *words: str) -> list[dict[str, Any]]:
    """What it writes to the file that it is told."""
    with tempfile.TemporaryDirectory(prefix='oxp-bench-') as folder:
        path = pathlib.Path(folder) / 'figures.json'
        subprocess.run([_FOLDER / name, path, *words], check=True)
        found: list[dict[str, Any]] = json.loads(path.read_text())
        return found


def run(asked: alone.Asked) -> tuple[dict[str, Any], Any]:
    """Of the forwarding program, by kind of packet."""
    found = run_program('packets', asked.settings['only'],
                        str(asked.settings['runs']))
    figures: dict[str, Any] = {}
    for one in found:
        figures[f'{one["case"]}_ns'] = one['median_ns']
        figures[one['case']] = {'ratio to floor': one['ratio']}
    return figures, found
