# SPDX-License-Identifier: Apache-2.0
"""Labs that somebody else has brought up, for tests within them."""

import contextlib
import os

from lab import namespaces
from lab import paths


def enter(case, variable, kind):
    """The lab that a variable of the environment names.

    Sockets of this thread are its control host's until the test ends, so that
    the SDK works. Without the variable the test is skipped.

    :param case: a unittest.TestCase.
    :param kind: of tests, for which tools/test brings the lab up.
    """
    name = os.environ.get(variable)
    if not name:
        case.skipTest(f'{variable} does not name a running lab; tools/test '
                      f'{kind} brings one up')
    lab = paths.Lab(name)
    inside = contextlib.ExitStack()
    inside.enter_context(namespaces.inside(lab, paths.CONTROL))
    case.addCleanup(inside.close)
    return lab
