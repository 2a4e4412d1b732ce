# SPDX-License-Identifier: Apache-2.0
"""Announcements through a real ExaBGP to a real bgp.BIRD."""

import dataclasses
import os
import pathlib
import signal

from lab import processes
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.agent.bgp.route import Route
from octavia_xdp_provider.tests.functional.support import bgp

FIRST, SECOND, THIRD = (f'203.0.113.{i}/32' for i in (10, 11, 12))
FIRST_V6 = '2001:db8:113::10/128'


class TestAnnouncements(bgp.BgpCase):

    def setUp(self):
        super().setUp()
        self.wanted = announcements.Announcements(
            self.directory, [bgp.NETWORK, bgp.NETWORK_V6])
        self.write_exabgp_config()

    def want(self, next_hops):
        """Ask for prefixes with these next hops; None is the node's own."""
        self.wanted.set([Route.parse(prefix, hop)
                         for prefix, hop in next_hops.items()])

    def test_router_follows_the_file(self):
        self.want({FIRST: None, SECOND: '198.18.1.4'})
        self.start_exabgp()

        self.wait_routes(
            {FIRST: bgp.NODE_ADDRESS, SECOND: '198.18.1.4'})
        self.wait_status({FIRST, SECOND})
        self.wait_session()
        self.assertEqual([bgp.ROUTER_ADDRESS],
                         list(self.wanted.status().neighbours))
        self.want({FIRST: bgp.NODE_ADDRESS, THIRD: None})
        self.wait_routes({FIRST: bgp.NODE_ADDRESS, THIRD: bgp.NODE_ADDRESS})
        self.wait_status({FIRST, THIRD})
        self.want({})
        self.wait_routes({})

    def test_killed_announcer_withdraws_afterwards(self):
        self.want({FIRST: None, SECOND: None})
        self.start_exabgp()
        self.wait_routes({FIRST: bgp.NODE_ADDRESS, SECOND: bgp.NODE_ADDRESS})

        exabgp = processes.find(self.lab, 'exabgp')
        for i in range(8):
            wanted = {(FIRST, THIRD)[i % 2]: None}
            worker = self.worker()
            os.kill(worker, signal.SIGSTOP)
            self.want(wanted)
            os.kill(worker, signal.SIGKILL)
            self.wait_routes(dict.fromkeys(wanted, bgp.NODE_ADDRESS))
            self.wait_status(set(wanted))
        self.assertTrue(exabgp.alive)

    def test_killed_supervisor_is_replaced_and_routes_stay(self):
        self.want({FIRST: None})
        self.start_exabgp()
        self.wait_routes({FIRST: bgp.NODE_ADDRESS})

        for _attempt in range(3):
            killed = self.supervisor()
            os.kill(killed, signal.SIGKILL)
            self.wait('another supervisor', lambda old=killed: (
                self.supervisor() not in (None, old)))
            self.wait_status({FIRST})
        self.want({SECOND: None})
        self.wait_routes({SECOND: bgp.NODE_ADDRESS})

    def test_killed_exabgp_withdraws_and_its_successor_announces(self):
        self.want({FIRST: None})
        self.start_exabgp()
        self.wait_routes({FIRST: bgp.NODE_ADDRESS})

        processes.kill(self.lab, 'exabgp')
        self.wait_routes({})
        self.wait('end of the announcer',
                   lambda: self.wanted.status() is None)
        self.start_exabgp()
        self.wait_routes({FIRST: bgp.NODE_ADDRESS})

    def test_new_session_gets_what_changed_meanwhile(self):
        self.want({FIRST: None})
        self.start_exabgp()
        self.wait_routes({FIRST: bgp.NODE_ADDRESS})

        processes.kill(self.lab, 'bird')
        # The first report may come after the route.
        self.wait('session down', lambda: (
            (status := self.wanted.status()) is not None
            and status.sessions_up == 0))
        self.want({SECOND: None})
        self.start_bird()
        self.wait_routes({SECOND: bgp.NODE_ADDRESS})

    def test_router_that_does_not_take_ipv6_is_named(self):
        self.write_exabgp_config([dataclasses.replace(
            bgp.SESSION, families=('ipv4 unicast', 'ipv6 unicast'))])
        self.want({FIRST: None, FIRST_V6: bgp.NODE_V6})
        self.start_exabgp()

        self.wait_routes({FIRST: bgp.NODE_ADDRESS})
        status = self.wait_status({FIRST})
        self.assertEqual({FIRST_V6: f'{bgp.ROUTER_ADDRESS} does not take ipv6 '
                                    'unicast'},
                         {str(prefix): why for prefix, why
                          in status.failed.items()})
        self.start_bird(bgp.BIRD_BOTH)
        self.wait_routes({FIRST: bgp.NODE_ADDRESS, FIRST_V6: bgp.NODE_V6})
        self.wait_status({FIRST, FIRST_V6})

    def test_both_families_in_sessions_of_their_own(self):
        self.start_bird(bgp.BIRD + bgp.BIRD_V6)
        self.write_exabgp_config([bgp.SESSION, bgp.SESSION_V6])
        self.want({FIRST: None, FIRST_V6: None})
        self.start_exabgp()

        self.wait_routes({FIRST: bgp.NODE_ADDRESS, FIRST_V6: bgp.NODE_V6})
        self.wait_status({FIRST, FIRST_V6})
        self.kill_announcer()
        self.wait_status({FIRST, FIRST_V6})
        self.want({FIRST: None})
        self.wait_routes({FIRST: bgp.NODE_ADDRESS})
        self.want({FIRST_V6: None})
        self.wait_routes({FIRST_V6: bgp.NODE_V6})
        self.wait_status({FIRST_V6})

    def wait_session(self):
        self.wait('session', lambda: (
            (status := self.wanted.status()) and status.sessions_up))

    def wait_status(self, expected):
        def status():
            current = self.wanted.status()
            return current if current and not current.error and (
                set(map(str, current.announced)) == expected) else None

        return self.wait(f'status {expected}', status)

    def children(self, pid):
        path = pathlib.Path(f'/proc/{pid}/task/{pid}/children')
        try:
            return [int(child) for child in path.read_text().split()
                    if processes.start_time(int(child))]
        except (FileNotFoundError, ProcessLookupError):
            return []

    def supervisor(self):
        exabgp = processes.find(self.lab, 'exabgp')
        return next(iter(self.children(exabgp.pid)), None)

    def worker(self):
        def worker():
            supervisor = self.supervisor()
            return supervisor and next(iter(self.children(supervisor)), None)

        return self.wait('worker', worker)

    def kill_announcer(self):
        os.kill(self.worker(), signal.SIGKILL)
