# SPDX-License-Identifier: Apache-2.0

from octavia_xdp_provider.agent.uplinks import state
from octavia_xdp_provider.manage import node_state
from octavia_xdp_provider.tests.unit import base

ANSWERS = state.NextHop('198.51.100.1', '02:00:00:00:00:01')


class TestNodeState(base.TestCase):

    def test_uplinks_that_answer_are_counted(self):
        for states, expected in (
                ((), '0/0'),
                ((state.State('eth0', v4=ANSWERS),
                  state.State('eth1', problem='no carrier', v4=ANSWERS),
                  state.State('eth2', v6=ANSWERS),
                  state.State('eth3', v4=ANSWERS._replace(
                      last_resort=True)),
                  state.State('eth4')), '2/5'),
                ((state.State('eth0', forwards=(4, 6)),
                  state.State('eth1', forwards=(4,)),
                  state.State('eth2', v4=ANSWERS, forwards=()),
                  state.State('eth3', problem='no carrier',
                               forwards=(4,))), '2/4')):
            self.assertEqual(expected, node_state.uplinks(
                {'uplinks': [state.report() for state in states]}))

    def test_node_without_report_of_uplinks_has_a_dash(self):
        self.assertEqual('-', node_state.uplinks({}))
