# SPDX-License-Identifier: Apache-2.0
"""Converts measurements of traffic to trials of a search."""

from bench.search import goal
from bench.traffic import interface


def of(measurement: interface.Measurement,
       disturbed: str | None = None) -> goal.Trial:
    """Return a trial.

    :param measurement: a measurement at a rate.
    :param disturbed: see goal.Trial.
    """
    return goal.Trial(
        measurement.asked or measurement.sent / measurement.seconds,
        measurement.seconds, measurement.sent, measurement.lost, disturbed)
