# SPDX-License-Identifier: Apache-2.0
"""API calls and faults in any order leave a consistent deployment.

In long form (OCTAVIA_XDP_TESTS=long) each run makes different calls;
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

    def test_deployment_is_consistent_after_any_faults(self):
        stateful.run_state_machine_as_test(
            machines.LongMachine if form.LONG else machines.Machine,
            settings=SETTINGS)
