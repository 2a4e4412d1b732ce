# SPDX-License-Identifier: Apache-2.0
"""Writes the files of a run to a folder."""

import pathlib

from bench.report import html
from bench.report import markdown
from bench.results import atomic
from bench.results import model
from bench.results import store as stores
from bench.results import suite_json


def write(run: model.Run, store: stores.Store,
          folder: pathlib.Path) -> list[pathlib.Path]:
    """Write report.html, report.md and suite.json; return their paths.

    Trends cover stored runs of the suite, up to this run.
    """
    history = [other for other in store.runs(run.suite)
               if (other.started, other.id or 0) <= (run.started, run.id or 0)]
    made = {'report.html': html.of_run(run, history),
            'report.md': markdown.of_run(run),
            'suite.json': suite_json.text_of(run)}
    for name, text in made.items():
        atomic.write(folder / name, text)
    return [folder / name for name in made]
