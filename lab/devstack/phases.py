# SPDX-License-Identifier: Apache-2.0
"""A short trial: each phase with all commands replaced.

    python -m lab.devstack.phases

It runs the plugin's tests one by one, as steps of build/devstack.json. The
exit status is 0 only if all pass.
"""

import sys
import unittest

from lab import demo_steps
from lab import paths
from lab.devstack import trial

TESTS = 'octavia_xdp_provider.tests.unit.test_devstack'


def _tests(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _tests(test)
        else:
            yield test


def _run(test):
    result = unittest.TestResult()
    test.run(result)
    failures = result.errors + result.failures
    demo_steps.expect(not failures, ''.join(
        text for _test, text in failures)[-4000:])


def main():
    steps = demo_steps.Steps(None, trial.REPORT)
    ok = True
    for test in _tests(unittest.defaultTestLoader.loadTestsFromName(TESTS)):
        name = test.id().rpartition('.')[2].replace('_', ' ')
        try:
            steps.step(name.removeprefix('test '), lambda test=test: _run(
                test))
        except demo_steps.StepFailed as error:
            print(error, file=sys.stderr)
            ok = False
    print(f'Report: {trial.REPORT.relative_to(paths.CHECKOUT)}')
    return 0 if ok and steps.steps else 1


if __name__ == '__main__':
    sys.exit(main())
