# SPDX-License-Identifier: Apache-2.0

from octavia_xdp_provider.controller.scheduler import cluster
from octavia_xdp_provider.controller.scheduler import liveness
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.controller.scheduler import base


class TestLiveness(unit.TestCase):

    def setUp(self):
        super().setUp()
        self.now = 1000.0
        self.last_seen = self.now
        self.start()

    def start(self):
        self.liveness = liveness.Liveness(10, 60)
        self.liveness.observe(self.now, [self.last_seen])

    def silence(self, last_seen):
        return self.liveness.silence_s(self.now, last_seen)

    def watch(self, seconds, reports=True):
        """Observe every second, with or without new reports."""
        for _ in range(seconds):
            self.now += 1
            if reports:
                self.last_seen = self.now
            self.liveness.observe(self.now, [0.0, self.last_seen])

    def test_silence_is_no_longer_than_the_observation(self):
        self.assertEqual(0, self.silence(last_seen=0))
        self.watch(6)
        self.assertEqual(5, self.silence(last_seen=0))

    def test_silence_does_not_count_before_the_first_report(self):
        self.watch(59, reports=False)
        self.assertEqual(0, self.silence(last_seen=0))
        self.assertTrue(self.liveness.awaits_first_report)
        self.watch(6)
        self.assertFalse(self.liveness.awaits_first_report)
        self.assertEqual(5, self.silence(last_seen=0))

    def test_silence_of_all_nodes_counts_after_a_while(self):
        self.watch(60, reports=False)
        self.assertFalse(self.liveness.awaits_first_report)
        self.watch(7, reports=False)
        self.assertEqual(7, self.silence(last_seen=1000))

    def test_silence_counts_while_others_report(self):
        self.watch(60)
        self.assertEqual(50, self.silence(last_seen=1010))

    def test_silence_counts_from_the_end_of_an_outage(self):
        self.watch(30)
        self.watch(3600, reports=False)
        self.assertEqual(3600, self.silence(last_seen=1030))
        self.watch(1)
        self.assertEqual(0, self.silence(last_seen=1030))
        self.watch(7)
        self.assertEqual(7, self.silence(last_seen=1030))

    def test_suspended_process_begins_anew(self):
        self.watch(60)
        self.now += 3600
        self.last_seen = self.now
        self.watch(1)
        self.assertEqual(0, self.silence(last_seen=1030))

    def test_observation_before_leading_counts(self):
        """A new leader starts over only if it has not observed before."""
        self.watch(40)
        watching = self.liveness
        self.start()
        self.assertEqual(0, self.silence(last_seen=1010))
        self.liveness = watching
        self.assertEqual(30, self.silence(last_seen=1010))


class TestCondition(unit.TestCase):

    def condition(self, silence_s, in_service=True):
        return cluster.condition(silence_s, in_service, 15, 30)

    def test_node_is_live_then_silent_then_dead(self):
        self.assertIs(base.LIVE, self.condition(15))
        self.assertIs(base.SILENT, self.condition(16))
        self.assertIs(base.SILENT, self.condition(30))
        self.assertIs(base.DEAD, self.condition(31))

    def test_disabled_node_may_die(self):
        self.assertIs(base.DISABLED, self.condition(3, in_service=False))
        self.assertIs(base.DEAD, self.condition(31, in_service=False))

    def test_node_without_a_judgement_is_silent(self):
        self.assertEqual({'a': base.SILENT, 'b': base.LIVE},
                         cluster.conditions({'a': None, 'b': 'live'}))
