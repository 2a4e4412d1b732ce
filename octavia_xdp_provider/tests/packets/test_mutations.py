# SPDX-License-Identifier: Apache-2.0
"""The program against the model, with random and mutated frames."""

from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import environment
from octavia_xdp_provider.tests.packets.support import random_case

Outcome = state.Outcome


class TestMutations(random_case.RandomCase):

    @environment.takes_long
    def test_all_outcomes_occur(self):
        """The random traffic reaches every decision."""
        wanted = set(Outcome) - {
            # states that the library never makes
            Outcome.DROP_NO_HEADROOM, Outcome.DROP_INTERNAL,
            # frames of several buffers: test_buffers
            Outcome.DROP_MULTI_BUFFER,
            # test_nat, test_nat_peers
            Outcome.DROP_NO_NAT_FLOW, Outcome.DROP_NAT_FULL, Outcome.DROP_TTL,
            Outcome.DROP_NAT_UNTRANSLATABLE, Outcome.DROP_CONNECTION_LIMIT,
            Outcome.SENT_RESET, Outcome.NAT_EVICTED, Outcome.NAT_HANDED_ON,
            Outcome.DROP_NAT_PEER}
        for seed in range(4):
            if not self.seen >= wanted:
                self.run_scenario(seed)
        self.assertLessEqual(wanted, self.seen)
