# SPDX-License-Identifier: Apache-2.0
"""What ``make test`` does in short, and ``make test-all`` in full."""

import os
import unittest

VARIABLE = 'OCTAVIA_XDP_TESTS'
LONG = os.environ.get(VARIABLE) == 'long'

# Decorates a test of which another one does a part.
in_long_form = unittest.skipUnless(LONG, 'in the long form: make test-all')


def repeats(short: int, long: int) -> int:
    """How often: `long` where OCTAVIA_XDP_TESTS=long, as `make test-all`."""
    return long if LONG else short
