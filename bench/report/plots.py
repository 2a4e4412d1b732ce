# SPDX-License-Identifier: Apache-2.0
"""Plots of results: against size, flows and VIPs; beside peers; over commits;
loss over time."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses

from matplotlib import ticker

from bench.report import svg
from bench.report import words
from bench.results import model
from bench.results import sign_test
from bench.results import statistics

# Series in one plot; more are spread over several plots.
SERIES_MAX = len(svg.COLOURS)
# The newest runs of a trend.
TREND_MAX = 40
# Numbers of labels and bars that remain readable.
EVENTS_MAX = 12
TICKS_MAX = 8
BARS_MAX = 24


@dataclasses.dataclass(frozen=True)
class Plot:
    """:ivar svg: an SVG element with title and description."""

    title: str
    svg: str


@dataclasses.dataclass
class _Series:
    label: str
    better: str
    unit: str
    points: list[tuple[float, sign_test.Interval, bool]]


def against_coordinates(cases: Sequence[model.Case]) -> Iterator[Plot]:
    """Yield plots by scenario, unit and coordinate with several values."""
    numbers: dict[str, None] = {}
    for case in cases:
        numbers.update((name, None) for name, value
                       in case.coordinates.items()
                       if not isinstance(value, str))
    count = 0
    for coordinate in numbers:
        for title, series in _by_scenario(cases, coordinate).items():
            for first in range(0, len(series), SERIES_MAX):
                count += 1
                yield _lines(f'line{count}', f'{title} by {coordinate}',
                             coordinate, series[first:first + SERIES_MAX])


def beside_peers(run: model.Run) -> Iterator[Plot]:
    """Yield bars of how many times better the product is than each peer."""
    by_peer: dict[str, list[model.Versus]] = {}
    for versus in run.versus:
        by_peer.setdefault(versus.peer, []).append(versus)
    count = 0
    for peer, ratios in by_peer.items():
        for first in range(0, len(ratios), BARS_MAX):
            count += 1
            yield _bars(f'bar{count}', peer, ratios[first:first + BARS_MAX])


def timelines(cases: Iterable[model.Case]) -> Iterator[Plot]:
    """Yield plots of packets lost over time, with events."""
    for count, case in enumerate(
            (case for case in cases if case.timeline), 1):
        yield _timeline(f'time{count}', case)


def trends(runs: Sequence[model.Run], cases: Iterable[model.Case],
           ) -> Iterator[Plot]:
    """Yield a plot of each case over runs, oldest first, if two have it."""
    for count, case in enumerate(cases, 1):
        points = [(run, other) for run in runs for other in run.cases
                  if (other.software, other.name, other.unit) == (
                      case.software, case.name, case.unit)
                  and other.samples]
        if len(points) > 1:
            yield _trend(f'trend{count}', case, points[-TREND_MAX:])


def _by_scenario(cases, coordinate):
    by_unit: dict[str, dict[str, _Series]] = {}
    for case in cases:
        value = case.coordinates.get(coordinate)
        if isinstance(value, str) or value is None or not case.samples:
            continue
        others = [f'{name} {other}' for name, other
                  in case.coordinates.items() if name != coordinate]
        title = f'{_scenario(case)} ({case.unit})'
        label = ', '.join([case.software, *others])
        series = by_unit.setdefault(title, {}).setdefault(
            label, _Series(label, case.better, case.unit, []))
        series.points.append((value, statistics.median(case.samples),
                              bool(case.marks)))
    return {title: several
            for title, series in by_unit.items() if (several := [
        line for line in series.values() if len(line.points) > 1])}


def _scenario(case):
    """Return the name without the parts that are values of coordinates."""
    values = {str(value) for value in case.coordinates.values()}
    return '/'.join(part for part in case.name.split('/')
                    if part not in values)


def _lines(name, title, coordinate, series):
    def plot(figure):
        axes = figure.subplots()
        values, marked = [], []
        for index, line in enumerate(series):
            points = sorted(line.points, key=lambda point: point[0])
            values += [point[0] for point in points]
            _errorbar(axes, [point[0] for point in points],
                      [point[1] for point in points], index, line.label)
            marked += [(x, y.estimate) for x, y, is_marked in points
                       if is_marked]
        _mark(axes, marked)
        if min(values) > 0 and max(values) > 20 * min(values):
            axes.set_xscale('log', base=2)
        if len(set(values)) <= TICKS_MAX:
            axes.set_xticks(sorted(set(values)))
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(
            lambda value, _: f'{value:,.8g}'))
        axes.set_xlabel(coordinate)
        _y_axis(axes, series[0].unit, series[0].better)
        axes.legend()

    text = '; '.join(
        f'{line.label}: ' + ', '.join(
            f'{words.figure(y.estimate, line.unit)} at {x:g}'
            for x, y, _ in line.points) for line in series)
    return Plot(title, svg.draw(name, title, text, plot))


def _bars(name, peer, ratios):
    title = f'Times better than {peer}'

    def plot(figure):
        axes = figure.subplots()
        places = range(len(ratios))
        middles = [versus.ratio for versus in ratios]
        axes.barh(places, middles, color=svg.COLOURS[0], height=0.6)
        axes.errorbar(
            middles, places, fmt='none', ecolor=svg.COLOURS[1], capsize=3,
            xerr=[[max(0.0, versus.ratio - versus.low) for versus in ratios],
                  [max(0.0, versus.high - versus.ratio) for versus in ratios]])
        axes.axvline(1, color=svg.COLOURS[1], linestyle='--', linewidth=1)
        axes.set_yticks(places, [versus.case for versus in ratios])
        axes.invert_yaxis()
        axes.set_xlabel(f'ratio to {peer}; 1 is the same')

    text = '; '.join(f'{versus.case}: {versus.ratio:.2f}' for versus in ratios)
    return Plot(title, svg.draw(name, title, text, plot,
                                1.2 + 0.35 * len(ratios)))


def _timeline(name, case):
    title = f'Loss over time: {case.name} ({case.software})'
    seconds = [row[0] for row in case.timeline]

    def plot(figure):
        axes = figure.subplots()
        axes.step(seconds, [row[1] for row in case.timeline], where='post',
                  color=svg.COLOURS[4], linestyle='--', label='sent')
        axes.step(seconds, [row[2] for row in case.timeline], where='post',
                  color=svg.COLOURS[1], label='lost')
        for at, text in case.events[:EVENTS_MAX]:
            axes.axvline(at, color=svg.COLOURS[2], linestyle=':')
            axes.annotate(text, (at, 0.98), rotation=90, va='top', ha='right',
                          xycoords=('data', 'axes fraction'), fontsize=8)
        axes.set_xlabel('seconds')
        axes.set_ylabel('packets an interval')
        axes.set_ylim(bottom=0)
        axes.legend(loc='center right')

    lost = sum(row[2] for row in case.timeline)
    sent = sum(row[1] for row in case.timeline)
    text = (f'{lost} of {sent} packets lost. Events: ' + '; '.join(
        f'{text} at {at:g} s' for at, text in case.events))
    return Plot(title, svg.draw(name, title, text, plot))


def _trend(name, case, points):
    title = f'{case.name} ({case.software}) over commits'
    intervals = [statistics.median(other.samples) for _, other in points]
    labels = [run.commit[:8] for run, _ in points]

    def plot(figure):
        axes = figure.subplots()
        places = list(range(len(points)))
        _errorbar(axes, places, intervals, 0, None)
        _mark(axes, [(place, interval.estimate) for place, interval, (_, other)
                     in zip(places, intervals, points, strict=True)
                     if other.marks])
        axes.set_xticks(places, labels, rotation=60, ha='right', fontsize=7)
        _y_axis(axes, case.unit, case.better)

    text = '; '.join(
        f'{label}: {words.figure(interval.estimate, case.unit)}'
        for label, interval in zip(labels, intervals, strict=True))
    return Plot(title, svg.draw(name, title, text, plot))


def _errorbar(axes, places, intervals, index, label):
    """Draw medians with their intervals, in the style of the index."""
    middles = [interval.estimate for interval in intervals]
    axes.errorbar(
        places, middles, label=label, capsize=3, markersize=5,
        yerr=[[interval.estimate - interval.low for interval in intervals],
              [interval.high - interval.estimate for interval in intervals]],
        color=svg.COLOURS[index], marker=svg.MARKERS[index],
        linestyle=svg.LINES[index])


def _mark(axes, points):
    """Draw rings around figures with marks."""
    if points:
        axes.plot([point[0] for point in points],
                  [point[1] for point in points], linestyle='none',
                  marker='o', markersize=13, fillstyle='none',
                  color=svg.COLOURS[1], label='marked')


def _y_axis(axes, unit, better):
    axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
    axes.set_ylabel(f'{unit}; {better} is better')
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(
        lambda value, _: words.figure(value, unit)))
