# SPDX-License-Identifier: Apache-2.0
"""What packets cost on a hypervisor: needs root and Linux 6.6."""

import json
import pathlib
import subprocess
import sys

import fixtures

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
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path,
                            'host.json')
        subprocess.run((sys.executable, '-m', 'bench.host', '--packets', '8',
                        '--flows', '1', '64', '--json', path),
                       cwd=paths.CHECKOUT, check=True,
                       stdout=subprocess.DEVNULL)
        found = json.loads(path.read_text())
        self.assertEqual({'1', '64', 'flatness'}, set(found))
        for flows, extra in (('1', OF_ONE_FLOW), ('64', set())):
            confirmed = found[flows].pop('confirmed_flows')
            self.assertEqual(int(flows) + len(extra) // 2, confirmed)
            self.assertEqual(CASES | extra, set(found[flows]))
            for result in found[flows].values():
                self.assertGreater(result['packets'], 0)
        for flows in ('1', '64'):
            self.assertEqual({'known_in', 'reply'},
                             set(found['flatness'][flows]))
            for of_case in found['flatness'][flows].values():
                self.assertEqual({'ratio', 'in_a_loop', 'least_in_a_loop',
                                  'without_line'}, set(of_case))
