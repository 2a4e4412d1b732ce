# SPDX-License-Identifier: Apache-2.0
"""Types of command-line arguments."""

import argparse
from collections.abc import Callable
import math

SECONDS_MIN = 0.1


def seconds(most: float) -> Callable[[str], float]:
    """Return an argument type for a time from SECONDS_MIN to ``most``."""
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not SECONDS_MIN <= value <= most:
            raise argparse.ArgumentTypeError(
                f'{text!r} is no number of seconds from {SECONDS_MIN} to '
                f'{most}')
        return value
    return parse
