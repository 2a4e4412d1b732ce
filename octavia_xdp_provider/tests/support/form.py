# SPDX-License-Identifier: Apache-2.0
"""What ``make test`` does in short, and the long kinds of tests in full."""

import os
import unittest

VARIABLE = 'OCTAVIA_XDP_TESTS'
LONG = os.environ.get(VARIABLE) == 'long'

# Decorates a test of which another one does a part.
in_long_form = unittest.skipUnless(LONG, 'in the long form')


def repeats(short: int, long: int) -> int:
    """How often: `long` where OCTAVIA_XDP_TESTS=long."""
    return long if LONG else short
