# SPDX-License-Identifier: Apache-2.0

from octavia_xdp_provider.controller.scheduler import cluster
from octavia_xdp_provider.controller.scheduler import liveness
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.controller.scheduler import base


class TestLiveness(unit.TestCase):

    def setUp(self):
        super().setUp()
        self.now = 1000.0
        self.liveness = liveness.Liveness(10, lambda: self.now)

    def silence(self, last_seen):
        return self.liveness.silence_s(base.node('n', last_seen))

    def hear_every_second(self, seconds):
        for _ in range(seconds):
            self.now += 1
            self.liveness.heard()

    def test_nobody_is_silent_for_longer_than_the_controller_listens(self):
        self.assertEqual(0, self.silence(last_seen=0))
        self.now += 5
        self.assertEqual(5, self.silence(last_seen=0))

    def test_silence_while_others_report_is_the_nodes_own(self):
        self.hear_every_second(60)
        self.assertEqual(50, self.silence(last_seen=1010))

    def test_after_an_outage_silence_counts_from_its_end(self):
        self.hear_every_second(30)
        self.now += 3600
        self.assertEqual(3600, self.silence(last_seen=1030))
        self.liveness.heard()
        self.assertEqual(0, self.silence(last_seen=1030))
        self.hear_every_second(7)
        self.assertEqual(7, self.silence(last_seen=1030))


class TestCondition(unit.TestCase):

    def condition(self, silence_s, in_service=True):
        return cluster.condition(
            base.node('n', in_service=in_service), silence_s, 15, 30)

    def test_a_node_is_live_then_silent_then_dead(self):
        self.assertIs(base.LIVE, self.condition(15))
        self.assertIs(base.SILENT, self.condition(16))
        self.assertIs(base.SILENT, self.condition(30))
        self.assertIs(base.DEAD, self.condition(31))

    def test_a_disabled_node_may_die(self):
        self.assertIs(base.DISABLED, self.condition(3, in_service=False))
        self.assertIs(base.DEAD, self.condition(31, in_service=False))
