# SPDX-License-Identifier: Apache-2.0
"""What is drawn of results: against size, flows and VIPs; beside peers; over
commits; loss over time."""

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

# Series in one plot; more are divided among several.
SERIES_MAX = len(svg.COLOURS)
# Runs of a trend, the newest ones.
TREND_MAX = 40
# Labels of time lines, and bars, that can be read.
EVENTS_MAX = 12
TICKS_MAX = 8
BARS_MAX = 24


@dataclasses.dataclass(frozen=True)
class Plot:
    """:ivar svg: an element, with title and description."""

    title: str
    svg: str


@dataclasses.dataclass
class _Series:
    label: str
    better: str
    unit: str
    points: list[tuple[float, sign_test.Interval, bool]]


def against_coordinates(cases: Sequence[model.Case]) -> Iterator[Plot]:
    """One for each scenario, unit and coordinate with more than a value."""
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
    """Bars of how many times better than each peer."""
    by_peer: dict[str, list[model.Versus]] = {}
    for one in run.versus:
        by_peer.setdefault(one.peer, []).append(one)
    count = 0
    for peer, ratios in by_peer.items():
        for first in range(0, len(ratios), BARS_MAX):
            count += 1
            yield _bars(f'bar{count}', peer, ratios[first:first + BARS_MAX])


def timelines(cases: Iterable[model.Case]) -> Iterator[Plot]:
    """Packets lost over time, with events."""
    for count, case in enumerate(
            (case for case in cases if case.timeline), 1):
        yield _timeline(f'time{count}', case)


def trends(runs: Sequence[model.Run], cases: Iterable[model.Case],
           ) -> Iterator[Plot]:
    """Of each case over runs, oldest first, if two have it."""
    for count, case in enumerate(cases, 1):
        points = [(run, other) for run in runs for other in run.cases
                  if (other.software, other.name, other.unit) == (
                      case.software, case.name, case.unit)
                  and other.samples]
        if len(points) > 1:
            yield _trend(f'trend{count}', case, points[-TREND_MAX:])


def _by_scenario(cases, coordinate):
    found: dict[str, dict[str, _Series]] = {}
    for case in cases:
        value = case.coordinates.get(coordinate)
        if isinstance(value, str) or value is None or not case.samples:
            continue
        others = [f'{name} {other}' for name, other
                  in case.coordinates.items() if name != coordinate]
        title = f'{_scenario(case)} ({case.unit})'
        label = ', '.join([case.software, *others])
        series = found.setdefault(title, {}).setdefault(
            label, _Series(label, case.better, case.unit, []))
        series.points.append((value, statistics.median(case.samples),
                              bool(case.marks)))
    return {title: several for title, series in found.items() if (several := [
        one for one in series.values() if len(one.points) > 1])}


def _scenario(case):
    """The name without the parts that are values of coordinates."""
    values = {str(value) for value in case.coordinates.values()}
    return '/'.join(part for part in case.name.split('/')
                    if part not in values)


def _lines(name, title, coordinate, series):
    def plot(figure):
        axes = figure.subplots()
        values, marked = [], []
        for index, one in enumerate(series):
            points = sorted(one.points, key=lambda point: point[0])
            values += [point[0] for point in points]
            _errorbar(axes, [point[0] for point in points],
                      [point[1] for point in points], index, one.label)
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
        f'{one.label}: ' + ', '.join(
            f'{words.figure(y.estimate, one.unit)} at {x:g}'
            for x, y, _ in one.points) for one in series)
    return Plot(title, svg.draw(name, title, text, plot))


def _bars(name, peer, ratios):
    title = f'Times better than {peer}'

    def plot(figure):
        axes = figure.subplots()
        places = range(len(ratios))
        middles = [one.ratio for one in ratios]
        axes.barh(places, middles, color=svg.COLOURS[0], height=0.6)
        axes.errorbar(
            middles, places, fmt='none', ecolor=svg.COLOURS[1], capsize=3,
            xerr=[[max(0.0, one.ratio - one.low) for one in ratios],
                  [max(0.0, one.high - one.ratio) for one in ratios]])
        axes.axvline(1, color=svg.COLOURS[1], linestyle='--', linewidth=1)
        axes.set_yticks(places, [one.case for one in ratios])
        axes.invert_yaxis()
        axes.set_xlabel(f'ratio to {peer}; 1 is the same')

    text = '; '.join(f'{one.case}: {one.ratio:.2f}' for one in ratios)
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
        _mark(axes, [(place, one.estimate) for place, one, (_, other)
                     in zip(places, intervals, points, strict=True)
                     if other.marks])
        axes.set_xticks(places, labels, rotation=60, ha='right', fontsize=7)
        _y_axis(axes, case.unit, case.better)

    text = '; '.join(
        f'{label}: {words.figure(one.estimate, case.unit)}'
        for label, one in zip(labels, intervals, strict=True))
    return Plot(title, svg.draw(name, title, text, plot))


def _errorbar(axes, places, intervals, index, label):
    """Medians with their intervals; a colour, marker and line of its own."""
    middles = [one.estimate for one in intervals]
    axes.errorbar(
        places, middles, label=label, capsize=3, markersize=5,
        yerr=[[one.estimate - one.low for one in intervals],
              [one.high - one.estimate for one in intervals]],
        color=svg.COLOURS[index], marker=svg.MARKERS[index],
        linestyle=svg.LINES[index])


def _mark(axes, points):
    """A ring around what is not what was asked for."""
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
