# SPDX-License-Identifier: Apache-2.0
"""HTML reports: self-contained pages."""

from collections.abc import Sequence
import pathlib

import jinja2

from bench import fingerprint
from bench.report import markdown
from bench.report import plots
from bench.report import words
from bench.results import comparison
from bench.results import model

_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent),
    autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
    lstrip_blocks=True)


def of_run(run: model.Run, history: Sequence[model.Run] = ()) -> str:
    """:param history: runs of the same suite, oldest first, for trends."""
    return _page(
        f'Benchmarks: suite {run.suite}, {run.commit[:12]}', run,
        trends=list(plots.trends(history, run.cases)))


def of_comparison(compared: comparison.Comparison,
                  history: Sequence[model.Run] = ()) -> str:
    """:param history: as for of_run(), up to the run after."""
    return _page(
        f'Benchmarks: {compared.before.commit[:12]} to '
        f'{compared.after.commit[:12]}: {compared.verdict}', compared.after,
        comparison=compared, trends=list(plots.trends(history,
                                                      compared.after.cases)))


def _page(title, run, trends, comparison=None):
    return _TEMPLATES.get_template('report.html.j2').render(
        title=title, run=run, comparison=comparison, words=words,
        caveat=markdown.CAVEAT, trends=trends,
        lines=list(plots.against_coordinates(run.cases)),
        bars=list(plots.beside_peers(run)),
        timelines=list(plots.timelines(run.cases)),
        fingerprint=list(fingerprint.flat(run.fingerprint)))
