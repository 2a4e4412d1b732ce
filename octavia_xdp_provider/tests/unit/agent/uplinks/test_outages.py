# SPDX-License-Identifier: Apache-2.0
"""Since when uplinks work, look by look."""

from octavia_xdp_provider.agent import uplinks_file
from octavia_xdp_provider.agent.uplinks import outages
from octavia_xdp_provider.agent.uplinks import state
from octavia_xdp_provider.node import netlink
from octavia_xdp_provider.tests.unit import base

Family = uplinks_file.Family
HOPS = {1: '198.51.101.1', 2: '198.51.102.1'}
MAC = '02:00:00:00:00:01'
SECOND = 10 ** 9


class TestOutages(base.TestCase):

    def setUp(self):
        super().setUp()
        self.links = {index: netlink.Link(
            index, f'eth{index}', f'02:00:00:00:0{index}:02', 1500, True)
            for index in HOPS}
        self.neighbours = {
            hop: netlink.Neighbour(MAC, confirmed=True)
            for hop in HOPS.items()}
        self.uplinks = state.Uplinks(('eth1', 'eth2'), {})
        self.outages = outages.Outages()
        self.now = 0

    def look(self, seconds=1, version=4):
        """A look after some seconds; what is said of IPv4."""
        self.now += int(seconds * SECOND)
        snapshot = netlink.Snapshot(
            self.links, {(1, 4): '198.51.101.2'},
            tuple(netlink.Route(4, *hop) for hop in HOPS.items()),
            self.neighbours)
        states, _ask = self.uplinks.look(snapshot)
        self.outages.look(states, snapshot, self.now)
        return self.outages.families.get(version)

    def link(self, index, **changes):
        self.links[index] = self.links[index]._replace(**changes)

    def only_one(self):
        self.uplinks = state.Uplinks(('eth1',), {})

    def neighbour(self, index, **changes):
        hop = (index, HOPS[index])
        self.neighbours[hop] = self.neighbours[hop]._replace(**changes)

    def ask(self):
        """The next hops in use are asked, and have not answered yet."""
        hops = self.outages.in_use
        for hop in hops:
            self.neighbours[hop] = self.neighbours[hop]._replace(
                confirmed=False)
            self.outages.asked(hop, self.now)
        return hops

    def answer(self, *indices):
        for index in indices:
            self.neighbour(index, mac=MAC, confirmed=True, failed=False)

    def test_silence_of_next_hops_is_known_before_the_checker_gives_up(self):
        self.assertLess(outages.ANSWER_S * 1000,
                        uplinks_file.CONTRACT['answer_max_ms'])

    def test_uplink_works_since_the_first_look_that_found_it(self):
        self.assertEqual(Family(SECOND, SECOND), self.look())
        self.assertEqual(SECOND, self.look().since_ns)

    def test_one_of_two_uplinks_lost_changes_nothing(self):
        since = self.look().since_ns
        self.link(1, carrier=False, carrier_losses=1)
        self.assertEqual(since, self.look().since_ns)
        self.link(1, carrier=True)
        self.assertEqual(since, self.look().since_ns)
        self.link(2, carrier=False, carrier_losses=1)
        self.assertEqual(since, self.look().since_ns)

    def test_outage_lasts_until_an_uplink_answers(self):
        self.look()
        for index in HOPS:
            self.link(index, carrier=False, carrier_losses=1)
        self.assertIsNone(self.look().since_ns)
        self.link(2, carrier=True)
        self.neighbour(2, mac=None, confirmed=False)
        self.assertIsNone(self.look().since_ns)
        self.answer(2)
        self.assertEqual(Family(self.now + SECOND, self.now + SECOND),
                         self.look())

    def test_carrier_lost_and_found_between_two_looks_is_an_outage(self):
        self.only_one()
        self.look()
        self.link(1, carrier_losses=1)
        self.assertEqual(self.now + SECOND, self.look().since_ns)
        since = self.now
        self.assertEqual(since, self.look().since_ns)

    def test_as_of_is_the_time_of_the_last_answered_question(self):
        self.look()
        self.assertEqual({(1, HOPS[1]), (2, HOPS[2])}, self.ask())
        asked = self.now
        self.assertEqual(SECOND, self.look(0.1).as_of_ns)
        self.look(0.1)
        self.answer(2)
        self.assertEqual(Family(asked, SECOND), self.look(0.01))
        self.assertTrue(self.outages.waits)
        self.answer(1)
        self.look(0.01)
        self.assertFalse(self.outages.waits)

    def test_next_hops_that_do_not_answer_are_an_outage(self):
        self.look()
        self.ask()
        self.assertEqual(SECOND, self.look(1).since_ns)
        self.answer(2)
        self.assertEqual(SECOND, self.look(0.2).since_ns)
        self.ask()
        self.assertIsNone(self.look(outages.ANSWER_S).since_ns)
        self.assertEqual({(1, HOPS[1]), (2, HOPS[2])}, self.outages.silent)
        # Still usable for packets, and nobody knows better.
        self.assertIsNone(self.look().since_ns)
        self.answer(1)
        self.assertEqual(self.now + SECOND, self.look().since_ns)
        self.assertEqual({(2, HOPS[2])}, self.outages.silent)

    def test_last_resort_next_hop_counts_as_an_outage(self):
        self.only_one()
        self.look()
        self.neighbour(1, mac=None, confirmed=False, failed=True)
        self.assertIsNone(self.look().since_ns)

    def test_configured_neighbour_needs_no_answer(self):
        self.only_one()
        self.neighbour(1, confirmed=False, permanent=True)
        self.look()
        self.assertEqual(frozenset(), self.outages.in_use)
        self.assertEqual(Family(self.now + SECOND, SECOND), self.look())

    def test_unused_family_is_not_reported(self):
        self.assertIsNone(self.look(version=6))

    def test_no_usable_interface_is_an_outage_of_both_families(self):
        for index in HOPS:
            self.link(index, carrier=False)
        for version in (4, 6):
            self.assertIsNone(self.look(version=version).since_ns)

    def test_carrier_suffices_with_kernel_routes(self):
        self.uplinks = state.Uplinks(('eth1',), {}, by_routes=True)
        self.neighbours.clear()
        self.link(1, forwards=frozenset((4,)))
        self.look()
        self.assertEqual(Family(2 * SECOND, SECOND), self.look())
        self.link(1, carrier=False, carrier_losses=1)
        self.assertIsNone(self.look().since_ns)
