# SPDX-License-Identifier: Apache-2.0
"""Results of Octavia's own tests of its API."""

import re

from lab.tempest import results
from lab.tempest import skips
from octavia_xdp_provider.tests.unit import base

TESTS = 'octavia_tempest_plugin.tests.'
MEMBER = TESTS + 'api.v2.test_member.MemberAPITest1.test_TCP_RR_member_show'
TRAFFIC = (TESTS + 'scenario.v2.test_traffic_ops.'
           'TrafficOperationsScenarioTest.test_basic_http_traffic')
AMPHORAE = TESTS + 'api.v2.test_amphora.AmphoraAPITest'
OTHER_PROVIDER = 'Amphora tests only run with the amphora provider enabled.'


class TestTempest(base.TestCase):

    def test_results_are_counted_by_class(self):
        outcome = results.Results(
            passed=[MEMBER + '[id-1]', MEMBER + '_all[id-2,smoke]'],
            failed={TRAFFIC + '[id-3]': 'text'},
            skipped={f'setUpClass ({AMPHORAE})': OTHER_PROVIDER})
        self.assertEqual({
            'api.v2.test_member.MemberAPITest1': [2, 0, 0],
            'scenario.v2.test_traffic_ops.TrafficOperationsScenarioTest':
                [0, 1, 0],
            'api.v2.test_amphora.AmphoraAPITest': [0, 0, 1]},
            results.by_class(outcome))

    def test_only_tests_with_accepted_reasons_may_be_skipped(self):
        outcome = results.Results(passed=[MEMBER],
                                  skipped={AMPHORAE: OTHER_PROVIDER})
        self.assertTrue(outcome.ok)
        outcome.skipped[MEMBER] = "option 'weight': the value 256 is too much"
        self.assertFalse(outcome.ok)

    def test_tests_that_need_virtual_machines_are_excluded(self):
        left_out = '|'.join(pattern for pattern, _why in skips.LEFT_OUT)
        self.assertTrue(re.search(left_out, TRAFFIC))
        self.assertFalse(re.search(left_out, MEMBER))
