# SPDX-License-Identifier: Apache-2.0
"""A member that cannot be reached while it moves, with all that takes part:
the node's pass, checker, result handler, datapath, a router and the member.

Another member, which does not move, cannot be reached for as long: it shows
that the health monitor has found that out.
"""

import copy
import time

from lab import processes
from octavia_xdp_provider.tests.functional.support import probed
from octavia_xdp_provider.tests.support import form

MOVING, STILL = 'lb0', 'lb1'
# Seconds in which a member is found down with probed.MONITOR.
SOON_DOWN = 4
# Longer than anything here takes.
LONG = 3600


class TestMovingMembers(probed.Probed):

    def documents(self):
        return [probed.behind(0, probed.TUNNELS[0]),
                probed.load_balancer(1, 'ipip', 4, 4)]

    def give(self, **tunnel):
        """The document has another tunnel, as the controller wants it."""
        generation, document = self.balancers[MOVING]
        document = copy.deepcopy(document)
        document['pools']['pool']['members']['m1']['tunnel'] = {
            **probed.TUNNELS[0], **tunnel}
        self.balancers[MOVING] = (generation + 1, document)
        self.run_pass()

    def reach(self, verb):
        """Cut the way to the member's IPv4 address, or mend it."""
        processes.run(self.lab, probed.ROUTER, [
            'ip', 'route', verb, 'blackhole', f'{probed.OWN[4]}/32'])

    def has_reported(self):
        """Whether the member's check that there is now has."""
        member, = self.datapath.members(self.key_of(MOVING))
        return member.known

    def assert_stays(self, **states):
        """It stays so for longer than a health monitor takes."""
        time.sleep(SOON_DOWN)
        self.assertEqual(states, self.states())

    @form.in_long_form
    def test_it_stays_up_whoever_is_killed_until_it_has_moved(self):
        self.wait_states(others='up')
        self.give(patience=LONG)
        self.reach('add')
        self.wait_states(**{MOVING: 'up', 'others': 'down'})
        away = {MOVING: 'up', STILL: 'down'}
        self.assert_stays(**away)
        for name, start in (('hc', self.start_checker),
                            ('handler', self.start_handler)):
            processes.kill(self.lab, name)
            start()
            self.assert_stays(**away)
        # An agent that was killed knows nothing but what it is sent.
        self.reconciler = self.make_reconciler()
        self.run_pass()
        self.assert_stays(**away)
        # The binding has moved, and the VM's first packets come later: the
        # checks are others now, of which no probe has told anything yet.
        moved = {'address': probed.OWN[6], 'key': 9}
        processes.run(self.lab, probed.ROUTER, [
            'ip', 'route', 'add', 'blackhole', f'{probed.OWN[6]}/128'])
        self.give(**moved, patience=LONG)
        self.assert_stays(**away)
        self.assertFalse(self.has_reported())
        processes.run(self.lab, probed.ROUTER, [
            'ip', 'route', 'del', 'blackhole', f'{probed.OWN[6]}/128'])
        opened = self.connected(self.balancers[MOVING][1]['vip_address'])
        opened.sendall(b'GET / HTTP/1.0\r\n\r\n')
        self.assertIn(b' 200 ', opened.recv(65536)[:20])
        self.wait('success of its new check', self.has_reported)
        # Now it is judged as any other, and is up.
        self.give(**moved)
        self.assert_stays(**away)

    def test_one_that_is_not_said_to_move_any_more_is_judged_at_once(self):
        self.wait_states(others='up')
        self.give(patience=LONG)
        self.reach('add')
        self.wait_states(**{MOVING: 'up', 'others': 'down'})
        self.give()
        self.wait_states(others='down')
