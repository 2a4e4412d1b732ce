# SPDX-License-Identifier: Apache-2.0
"""What packets cost on an LB node, in one round a case: the program ends each
packet as the case says, or the benchmark fails. Needs root."""

import subprocess

from bench.parts import packets
from lab import paths
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.unit import base

DATAPATH = paths.CHECKOUT / 'datapath'
# one of each part of the benchmark
SOME = {'IPv4 TCP established, 1 flow', 'IPv4 TCP, watched, 1 flow', 'DSCP',
        'SOURCE_IP', 'allowed_cidrs, 1,024 networks',
        '10 % of the slots open, 1 Mi flows', 'SRv6, an alternative',
        '10,000 services, packets to one of them',
        'NAT44, known flows, 1 Ki flows', 'NAT44, a new flow each packet'}
FIGURES = {'case', 'min_ns', 'median_ns', 'floor_ns', 'ratio', 'quiet_runs',
           'undisturbed_ns', 'undisturbed_floor_ns'}


@form.in_long_form
class TestDatapathCost(base.TestCase):

    def test_each_case_is_measured(self):
        subprocess.run(('make', '-s', '-C', DATAPATH, 'all',
                        'build/bench/packets'), check=True)
        costs = packets.run_program('packets', '', '1')
        names = [cost['case'] for cost in costs]
        self.assertEqual(set(), SOME - set(names))
        self.assertEqual(len(names), len(set(names)))
        for cost in costs:
            self.assertGreaterEqual(cost['quiet_runs'], 1, cost)
            self.assertEqual(FIGURES, set(cost))
