# SPDX-License-Identifier: Apache-2.0
"""Runs and cases that tests store, compare and show."""

import datetime

from bench.results import model

STARTED = datetime.datetime(2026, 5, 4, 3, 2, 1, 987654,
                            tzinfo=datetime.timezone.utc)


def case(name='rate/ipip/64', samples=(100.0, 101.5, 99.25), **values):
    """A case of throughput, unless told otherwise."""
    values = {'unit': 'packets/s', 'better': model.HIGHER, **values}
    return model.Case(name=name, samples=list(samples), **values)


def run(*cases, **values):
    """A run with these cases."""
    values = {'suite': 'default', 'commit': 'c0ffee', 'started': STARTED,
              'fingerprint': {'kernel': '6.12.1'}, **values}
    return model.Run(cases=list(cases), **values)


def full_case():
    """With something in each field."""
    return model.Case(
        name='member_death/gue/64', unit='packets', better=model.LOWER,
        samples=[0.1 + 0.2, 1e-300, 12345678901234567.0], software='haproxy',
        marks=['rate not reached: 812000 of 1000000'],
        coordinates={'size': 64, 'encapsulation': 'gue', 'share': 0.1},
        timeline=[(0.1, 1000, 0), (0.2, 1000, 17)],
        events=[(0.15, 'member 2 is down <1>')],
        details={'nested': {'list': [1, None, True, 'ü']}})
