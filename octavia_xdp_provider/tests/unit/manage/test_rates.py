# SPDX-License-Identifier: Apache-2.0

from octavia_xdp_provider.controller.store import figures
from octavia_xdp_provider.manage import rates
from octavia_xdp_provider.tests.unit import base


def traffic(number, active=1):
    return figures.Traffic(1000 * number, 10 * number, number, active)


class TestMeter(base.TestCase):

    def setUp(self):
        super().setUp()
        self.meter = rates.Meter()

    def look(self, now, **sums):
        self.meter.add(now, sums)
        return self.meter.rate('a', now)

    def test_rate_is_taken_between_two_reports(self):
        """A rate since the program's start would include earlier traffic."""
        self.assertIsNone(self.look(0, a=traffic(100)))
        self.assertIsNone(self.look(2, a=traffic(200)))
        self.assertIsNone(self.look(8, a=traffic(200)))
        self.assertEqual((10000, 100, 10), self.look(12, a=traffic(300)))
        self.assertEqual((10000, 100, 10),
                         self.look(14, a=traffic(300, active=7)))

    def test_reports_older_than_the_window_do_not_count(self):
        self.look(0, a=traffic(0))
        for now in range(10, 60, 10):
            self.look(now, a=traffic(now))
        for now in range(60, 120, 10):
            rate = self.look(now, a=traffic(50 + 3 * (now - 50)))
        self.assertEqual((3000, 30, 3), rate)

    def test_rate_is_zero_without_a_report(self):
        self.look(0, a=traffic(0))
        self.look(10, a=traffic(10))
        self.look(20, a=traffic(20))
        self.assertEqual(1000, self.look(35, a=traffic(20)).bytes)
        self.assertEqual((0, 0, 0), self.look(36, a=traffic(20)))

    def test_unknown_name_has_rate_zero_after_a_while(self):
        self.assertIsNone(self.look(0))
        self.assertIsNone(self.look(14))
        self.assertEqual((0, 0, 0), self.look(15))

    def test_falling_sums_give_rate_zero(self):
        """Sums fall when a listener of the load balancer is deleted."""
        self.look(0, a=traffic(50))
        self.look(10, a=traffic(60))
        self.assertEqual((0, 0, 0), self.look(20, a=traffic(5)))

    def test_changes_of_vanished_name_are_forgotten(self):
        self.look(0, a=traffic(0))
        self.look(10, a=traffic(10))
        self.look(20)
        self.assertEqual((0, 0, 0), self.look(22))
        self.assertIsNone(self.look(24, a=traffic(30)))
