# SPDX-License-Identifier: Apache-2.0
"""Formats figures and verdicts for readers."""

import math

from bench.results import model
from bench.results import sign_test
from bench.results import statistics
from bench.results import verdict

_PREFIXES = ((1e9, 'G'), (1e6, 'M'), (1e3, 'k'), (1.0, ''))
_SECONDS = ((1.0, 's'), (1e-3, 'ms'), (1e-6, 'µs'), (1e-9, 'ns'))
_SIGNS = {verdict.CHANGED: '≠', verdict.SAME: '=', verdict.UNKNOWN: '?'}


def figure(value: float, unit: str) -> str:
    """Return three digits with the unit: 1.23 Mpackets/s, 45.2 ns."""
    if unit in ('s', 'ns'):
        seconds = value * (1e-9 if unit == 'ns' else 1.0)
        return _scaled(seconds, _SECONDS, ' ')
    if unit == '1':
        return _digits(value)
    factor, prefix = _step(value, _PREFIXES)
    return f'{_digits(value / factor)} {prefix}{unit}'


def interval(computed: sign_test.Interval, unit: str) -> str:
    """Return the estimate with its bounds."""
    if computed.low == computed.high:
        return figure(computed.estimate, unit)
    estimate, low, high = (figure(value, unit) for value in (
        computed.estimate, computed.low, computed.high))
    return f'{estimate} ({low} to {high})'


def case(measured: model.Case) -> str:
    """Return the median, or that the case was not measured."""
    if not measured.samples:
        return 'not measured'
    return interval(statistics.median(measured.samples), measured.unit)


def change(changed: verdict.Change) -> str:
    """Return the size of a change: +2.1 % (+1.0 % to +3.3 %)."""
    if changed.interval is None:
        return ''
    values = (changed.interval.estimate, changed.interval.low,
              changed.interval.high)
    if changed.is_ratio:
        estimate, low, high = (f'{100 * value:+.1f} %' for value in values)
    else:
        estimate, low, high = (
            ('+' if value >= 0 else '') + figure(value, changed.before.unit)
            for value in values)
    return f'{estimate} ({low} to {high})'


def judged(changed: verdict.Change) -> str:
    """Return the verdict, with its direction or its reason."""
    text = f'{_SIGNS[changed.verdict]} {changed.verdict}'
    if changed.direction:
        text += f', {changed.direction}'
    if changed.reason:
        text += f': {changed.reason}'
    if changed.rounds_needed:
        text += f'; {changed.rounds_needed} rounds may do'
    return text


def overall(text: str) -> str:
    """Return the verdict of a whole comparison, with its sign."""
    return f'{_SIGNS[text]} {text}'


def _scaled(value, steps, space):
    factor, name = _step(value, steps)
    return f'{_digits(value / factor)}{space}{name}'


def _step(value, steps):
    """Return the largest step up to the value; for zero, the one of 1."""
    size = abs(value)
    for step in steps:
        if size >= step[0] * 0.9995:
            return step
    return steps[-1] if size else next(
        step for step in steps if step[0] == 1.0)


def _digits(value):
    if value == 0 or not math.isfinite(value):
        return f'{value:g}'
    places = max(0, 2 - math.floor(math.log10(abs(value)) + 1e-9))
    text = f'{value:,.{min(places, 6)}f}'
    return text.rstrip('0').rstrip('.') if '.' in text else text
