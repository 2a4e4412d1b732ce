# SPDX-License-Identifier: Apache-2.0

import contextlib
import io
import types

from octavia_xdp_provider.agent.uplinks import state
from octavia_xdp_provider.cmd import manage
from octavia_xdp_provider.tests.unit.controller import base

ANSWERS = state.NextHop('198.51.100.1', '02:00:00:00:00:01')


class TestNodeList(base.StoreTestCase):

    def listed(self, state):
        """The node's line, by column."""
        self.store.seen('lb1', state)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            manage.node_list(self.conf, types.SimpleNamespace(json=False))
        header, line = out.getvalue().splitlines()
        start = header.index('UPLINKS')
        return line[start:].split()[0]

    def test_uplinks_that_answer_are_counted(self):
        for states, shown in (
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
            self.assertEqual(shown, self.listed(
                {'uplinks': [state.report() for state in states]}))

    def test_node_that_reports_no_uplinks_shows_a_dash(self):
        self.assertEqual('-', self.listed({}))
