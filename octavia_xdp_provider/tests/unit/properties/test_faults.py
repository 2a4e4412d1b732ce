# SPDX-License-Identifier: Apache-2.0
"""Calls of the API and faults in any order: once it is quiet all agree.

In long form (OCTAVIA_XDP_TESTS=long) the calls are others in each run;
hypothesis prints those that failed, as a test to be copied.
"""

import hypothesis
from hypothesis import stateful

from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.properties import machines

SETTINGS = hypothesis.settings(
    max_examples=form.repeats(4, 400), derandomize=not form.LONG,
    stateful_step_count=form.repeats(30, 50), deadline=None, database=None,
    print_blob=True, report_multiple_bugs=False,
    suppress_health_check=list(hypothesis.HealthCheck))


class TestFaults(base.TestCase):

    def test_once_it_is_quiet_all_agree_whatever_failed(self):
        stateful.run_state_machine_as_test(
            machines.LongMachine if form.LONG else machines.Machine,
            settings=SETTINGS)
