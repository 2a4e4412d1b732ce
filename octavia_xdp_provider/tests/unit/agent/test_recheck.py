# SPDX-License-Identifier: Apache-2.0
"""When a VIP is announced after a time without uplinks."""

import os
import types
from unittest import mock

from octavia_xdp_provider.agent import recheck
from octavia_xdp_provider.agent import uplinks_file
from octavia_xdp_provider.health import checker_status
from octavia_xdp_provider.tests.unit import base

VIP = '203.0.113.10'
CHECKS = frozenset(('0000000000000001', '0000000000000002'))
SECOND = 10 ** 9
TIMEOUT = 10 * SECOND
BACK = 100 * SECOND
V4 = frozenset((4,))


class TestRecheck(base.TestCase):

    def setUp(self):
        super().setUp()
        self.queue = os.path.dirname(self.create_tempfiles([('x', '')])[0])
        self.now = BACK + SECOND
        self.set_clock()
        self.settling = mock.Mock(return_value=None)
        self.patch(checker_status, 'settling', self.settling)
        self.timer = mock.Mock()
        self.patch(recheck.threading, 'Timer', self.timer)
        self.uplinks = types.SimpleNamespace(
            lost=frozenset(),
            families={4: uplinks_file.Family(self.now, BACK)})
        self.neighbours = {'198.51.100.1': 'up'}
        self.start()

    def set_clock(self):
        self.patch(recheck.time, 'monotonic_ns', lambda: self.now)

    def patch(self, where, name, new):
        self.enterContext(mock.patch.object(where, name, new))

    def start(self, text=''):
        self.look_again = mock.Mock()
        self.recheck = recheck.Recheck(
            self.load(f'[agent]\n{text}'), self.uplinks,
            types.SimpleNamespace(checker_socket='sock', queue=self.queue),
            lambda: self.neighbours, self.look_again)

    def allows(self, held=False, families=V4, checks=CHECKS):
        self.recheck.begin(True)
        allowed = self.recheck.allows(VIP, held, families, checks)
        self.recheck.end()
        if self.recheck.allows_all:
            self.assertTrue(allowed)
        return allowed

    def settled(self, *keys, number=None, since=BACK, unwritten=False):
        self.settling.return_value = checker_status.Settling(
            {4: since, 6: None}, len(keys) if number is None else number,
            frozenset(keys), unwritten)

    def out(self):
        self.uplinks.families = {4: uplinks_file.Family(self.now, None)}

    def test_all_vips_are_allowed_after_the_time_out(self):
        self.assertFalse(self.allows())
        self.assertFalse(self.recheck.allows_all)
        self.now = BACK + TIMEOUT + SECOND
        self.recheck.begin(True)  # when it has begun is remembered
        self.now += TIMEOUT
        self.assertTrue(self.allows())
        self.assertTrue(self.recheck.allows_all)
        for change in (self.out, lambda: setattr(
                self.uplinks, 'lost', V4)):
            change()
            self.allows()
            self.assertFalse(self.recheck.allows_all)

    def test_vip_is_withdrawn_without_an_uplink(self):
        self.assertTrue(self.allows(held=True))
        self.out()
        self.uplinks.lost = V4
        self.assertFalse(self.allows(held=True))
        # One whose packets leave by the other family is not.
        self.assertTrue(self.allows(held=True, families=frozenset((6,))))

    def test_silent_next_hop_alone_withdraws_nothing(self):
        self.out()
        self.assertTrue(self.allows(held=True))
        self.assertFalse(self.allows(held=False))

    def test_silent_next_hops_without_any_session_withdraw(self):
        self.out()
        self.neighbours = {'198.51.100.1': 'down', '198.51.100.5': 'up'}
        self.assertTrue(self.allows(held=True))
        self.neighbours['198.51.100.5'] = 'down'
        self.assertFalse(self.allows(held=True))
        self.neighbours = {}
        self.assertTrue(self.allows(held=True))

    def test_sessions_that_are_down_alone_withdraw_nothing(self):
        self.recheck.begin(True)
        self.neighbours = {'198.51.100.1': 'down'}
        self.now += TIMEOUT
        self.assertTrue(self.allows(held=True))

    def test_vip_waits_for_the_checks_of_its_own_members(self):
        self.assertFalse(self.allows())
        self.timer.return_value.start.assert_called_once_with()
        self.assertEqual(self.look_again, self.timer.call_args.args[1])
        self.settled('0000000000000002', '0000000000000003')
        self.assertFalse(self.allows())
        self.settled('0000000000000003')
        self.timer.reset_mock()
        self.assertTrue(self.allows())
        self.timer.assert_not_called()

    def test_results_from_before_the_return_do_not_count(self):
        for since in (BACK - 1, None):
            self.settled(since=since)
            self.assertFalse(self.allows())

    def test_incomplete_list_does_not_help(self):
        self.settled('0000000000000003', number=2)
        self.assertFalse(self.allows())

    def test_results_must_have_come_to_the_tables(self):
        self.settled(unwritten=True)
        self.assertFalse(self.allows())
        self.settled()
        delta = os.path.join(self.queue, 'a.delta')
        with open(delta, 'w', encoding='utf-8'):
            self.assertFalse(self.allows())
        os.unlink(delta)
        self.assertTrue(self.allows())

    def test_vip_without_checks_waits_for_nothing(self):
        self.assertTrue(self.allows(checks=frozenset()))
        self.settling.assert_not_called()

    def test_vip_is_announced_after_the_time_out(self):
        self.recheck.begin(True)
        self.now = BACK + SECOND + TIMEOUT - 1
        self.assertFalse(self.allows())
        self.now += 1
        self.assertTrue(self.allows())

    def test_time_out_is_configurable(self):
        self.start('recheck_timeout = 0\n')
        self.assertTrue(self.allows())

    def test_long_after_the_return_nothing_waits(self):
        """A VIP of which the last member came up again, for example."""
        self.recheck.begin(True)
        self.now += 1000 * SECOND
        self.assertTrue(self.allows())
        self.settling.assert_not_called()

    def test_time_out_begins_when_it_is_known_what_is_wanted(self):
        self.now += 1000 * SECOND
        self.assertFalse(self.allows())

    def test_announced_vip_stays_after_a_restart_of_the_agent(self):
        self.assertTrue(self.allows(held=True))

    def test_nothing_waits_without_knowledge_of_uplinks(self):
        self.uplinks.families = {}
        self.assertTrue(self.allows())
