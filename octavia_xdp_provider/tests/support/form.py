# SPDX-License-Identifier: Apache-2.0
"""Whether tests that repeat themselves do so often, or a few times."""

import os

VARIABLE = 'OCTAVIA_XDP_TESTS'
LONG = os.environ.get(VARIABLE) == 'long'


def repeats(short: int, long: int) -> int:
    """How often: `long` where OCTAVIA_XDP_TESTS=long, as `make test-all`."""
    return long if LONG else short
