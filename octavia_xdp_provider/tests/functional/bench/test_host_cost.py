# SPDX-License-Identifier: Apache-2.0
"""What packets cost on a hypervisor: needs root and Linux 6.6."""

import subprocess

from bench.engine import alone
from bench.scenarios import model
from lab import paths
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.unit import base

CASES = {'known_in', 'reply', 'line', 'known_in_in_a_loop', 'reply_in_a_loop',
         'line_in_a_loop', 'other_nic', 'other_tap', 'other_nic_in_a_loop',
         'other_tap_in_a_loop', 'new_16_rules', 'new_16_rules_in_a_loop',
         'known_in_amid_flood'}
OF_ONE_FLOW = {'known_in_ipv6', 'reply_ipv6'}


@form.in_long_form
class TestHostCost(base.TestCase):

    def test_each_case_is_measured_over_flows_that_are_known(self):
        subprocess.run(('make', '-s', '-C', paths.CHECKOUT / 'datapath',
                        'host', 'build/host_floor.bpf.o',
                        'build/host_loop.bpf.o'), check=True)
        for flows, extra in ((1, OF_ONE_FLOW), (64, set())):
            figures = alone.run(model.Measure(
                'hypervisor_packets',
                settings={'flows': flows, 'packets': 8}), 'xdp')
            measured = figures[0].details['software']
            self.assertEqual(flows + len(extra) // 2,
                             measured.pop('confirmed_flows'))
            flatness = measured.pop('flatness')
            self.assertEqual(CASES | extra, set(measured))
            for result in measured.values():
                self.assertGreater(result['packets'], 0)
            self.assertEqual(
                CASES | extra, {figure.part.partition('/')[0]
                                for figure in figures})
            self.assertEqual({'known_in', 'reply'}, set(flatness))
            for of_case in flatness.values():
                self.assertEqual({'ratio', 'in_a_loop', 'least_in_a_loop',
                                  'without_line'}, set(of_case))
