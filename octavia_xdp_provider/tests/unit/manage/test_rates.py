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

    def test_a_rate_goes_from_one_report_to_another(self):
        """And not since the program was started: what was counted before
        would seem to have come since."""
        self.assertIsNone(self.look(0, a=traffic(100)))
        self.assertIsNone(self.look(2, a=traffic(200)))
        self.assertIsNone(self.look(8, a=traffic(200)))
        self.assertEqual((10000, 100, 10), self.look(12, a=traffic(300)))
        self.assertEqual((10000, 100, 10),
                         self.look(14, a=traffic(300, active=7)))

    def test_older_reports_than_the_window_do_not_count(self):
        self.look(0, a=traffic(0))
        for now in range(10, 60, 10):
            self.look(now, a=traffic(now))
        for now in range(60, 120, 10):
            found = self.look(now, a=traffic(50 + 3 * (now - 50)))
        self.assertEqual((3000, 30, 3), found)

    def test_without_a_report_there_is_no_traffic(self):
        self.look(0, a=traffic(0))
        self.look(10, a=traffic(10))
        self.look(20, a=traffic(20))
        self.assertEqual(1000, self.look(35, a=traffic(20)).bytes)
        self.assertEqual((0, 0, 0), self.look(36, a=traffic(20)))

    def test_what_never_counted_has_no_traffic_after_a_while(self):
        self.assertIsNone(self.look(0))
        self.assertIsNone(self.look(14))
        self.assertEqual((0, 0, 0), self.look(15))

    def test_sums_that_fall_are_no_rate_below_zero(self):
        """A load balancer's listener was deleted."""
        self.look(0, a=traffic(50))
        self.look(10, a=traffic(60))
        self.assertEqual((0, 0, 0), self.look(20, a=traffic(5)))

    def test_what_is_gone_is_forgotten(self):
        self.look(0, a=traffic(0))
        self.look(10, a=traffic(10))
        self.look(20)
        self.assertEqual((0, 0, 0), self.look(22))
        self.assertIsNone(self.look(24, a=traffic(30)))
