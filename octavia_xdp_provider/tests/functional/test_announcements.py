# SPDX-License-Identifier: Apache-2.0
"""Announcements through a real ExaBGP to a real BIRD."""

import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import sys

from oslotest import base
from testtools import content

from lab import namespaces
from lab import paths
from lab import processes
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.agent.bgp import exabgp_config
from octavia_xdp_provider.common import atomic_file

NODE = 'lb1'
ROUTER = 'router'
NODE_ADDRESS = '198.18.1.6'
ROUTER_ADDRESS = '198.18.1.5'
NETWORK = '203.0.113.0/24'
FIRST, SECOND, THIRD = (f'203.0.113.{i}/32' for i in (10, 11, 12))
NODE_V6 = '2001:db8:1::6'
ROUTER_V6 = '2001:db8:1::5'
NETWORK_V6 = '2001:db8:113::/64'
FIRST_V6 = '2001:db8:113::10/128'

BIRD = f'''
router id {ROUTER_ADDRESS};
protocol device {{}}
protocol bgp node {{
    local {ROUTER_ADDRESS} as 65000;
    neighbor {NODE_ADDRESS} as 65010;
    passive yes;
    hold time 9;
    direct;
    ipv4 {{ import all; export none; }};
}}
'''
# IPv6 routes in an IPv6 session of their own.
BIRD_V6 = f'''
protocol bgp node6 {{
    local {ROUTER_V6} as 65000;
    neighbor {NODE_V6} as 65010;
    passive yes;
    hold time 9;
    direct;
    ipv6 {{ import all; export none; }};
}}
'''
# IPv6 routes in the IPv4 session.
BIRD_BOTH = BIRD.replace(
    'ipv4 {', 'ipv6 { import all; export none; };\n    ipv4 {')
SESSION = exabgp_config.Neighbour(
    local_address=NODE_ADDRESS, local_as=65010,
    peer_address=ROUTER_ADDRESS, peer_as=65000)
SESSION_V6 = exabgp_config.Neighbour(
    local_address=NODE_V6, local_as=65010, peer_address=ROUTER_V6,
    peer_as=65000, families=('ipv6 unicast',))


class TestAnnouncements(base.BaseTestCase):
    # Far above what it takes, far below what would go unnoticed.
    SOON = 20

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest('network namespaces need root')
        self.lab = paths.Lab(f'announce-{os.getpid()}')
        self.lab.make_directories()
        self.addCleanup(self._remove_directories)
        for host in (NODE, ROUTER):
            self.addCleanup(self._delete, host)
            namespaces.create(self.lab, host)
        namespaces.veth(self.lab, (NODE, 'eth0'), (ROUTER, 'to-lb1'))
        namespaces.address(self.lab, NODE, 'eth0', f'{NODE_ADDRESS}/29')
        namespaces.address(self.lab, ROUTER, 'to-lb1',
                           f'{ROUTER_ADDRESS}/29')
        for host, link, address in ((NODE, 'eth0', NODE_V6),
                                    (ROUTER, 'to-lb1', ROUTER_V6)):
            processes.run(self.lab, host, [
                'ip', 'address', 'add', f'{address}/64', 'dev', link,
                'nodad'])
        self.directory = self.lab.run_directory
        self.wanted = announcements.Announcements(
            self.directory, [NETWORK, NETWORK_V6])
        self._start_bird()
        self._write_exabgp_config()

    def test_announce_and_withdraw(self):
        self.wanted.set({FIRST: None, SECOND: '198.18.1.4'})
        self._start_exabgp()

        self._wait_routes(
            {FIRST: NODE_ADDRESS, SECOND: '198.18.1.4'})
        self._wait_status({FIRST, SECOND})
        self._wait_session()
        self.assertEqual([ROUTER_ADDRESS],
                         list(self.wanted.status().neighbours))
        self.wanted.set({FIRST: NODE_ADDRESS, THIRD: None})
        self._wait_routes({FIRST: NODE_ADDRESS, THIRD: NODE_ADDRESS})
        self._wait_status({FIRST, THIRD})
        self.wanted.set({})
        self._wait_routes({})

    def test_nothing_before_the_file_is_there(self):
        self._start_exabgp()
        self._wait_session()

        self.assertEqual({}, self._routes())
        self.assertIn('there is no', self.wanted.status().error)
        self.wanted.set({FIRST: None})
        self._wait_routes({FIRST: NODE_ADDRESS})
        self.assertIsNone(self._wait_status({FIRST}).error)

    def test_unusable_file_changes_nothing(self):
        self.wanted.set({FIRST: None})
        self._start_exabgp()
        self._wait_status({FIRST})
        file = self.directory / announcements.FILE_NAME
        good = file.read_bytes()

        for bad in (good[:-20], b'', b'{"version": 2}'):
            atomic_file.replace(file, bad)
            self._wait('error', lambda: self.wanted.status().error)
            self.assertEqual({FIRST: NODE_ADDRESS}, self._routes())
            self._kill_announcer()
            self._wait('error after a restart', lambda: (
                self.wanted.status() and self.wanted.status().error))
            self.assertEqual({FIRST: NODE_ADDRESS}, self._routes())
            atomic_file.replace(file, good)
            self._wait_status({FIRST})

    def test_killed_announcer_withdraws_afterwards(self):
        self.wanted.set({FIRST: None, SECOND: None})
        self._start_exabgp()
        self._wait_routes({FIRST: NODE_ADDRESS, SECOND: NODE_ADDRESS})

        exabgp = processes.find(self.lab, 'exabgp')
        for i in range(8):
            wanted = {(FIRST, THIRD)[i % 2]: None}
            worker = self._worker()
            os.kill(worker, signal.SIGSTOP)
            self.wanted.set(wanted)
            os.kill(worker, signal.SIGKILL)
            self._wait_routes(dict.fromkeys(wanted, NODE_ADDRESS))
            self._wait_status(set(wanted))
        self.assertTrue(exabgp.alive)

    def test_killed_supervisor_is_replaced_and_routes_stay(self):
        self.wanted.set({FIRST: None})
        self._start_exabgp()
        self._wait_routes({FIRST: NODE_ADDRESS})

        for _attempt in range(3):
            killed = self._supervisor()
            os.kill(killed, signal.SIGKILL)
            self._wait('another supervisor', lambda old=killed: (
                self._supervisor() not in (None, old)))
            self._wait_status({FIRST})
        self.wanted.set({SECOND: None})
        self._wait_routes({SECOND: NODE_ADDRESS})

    def test_killed_exabgp(self):
        self.wanted.set({FIRST: None})
        self._start_exabgp()
        self._wait_routes({FIRST: NODE_ADDRESS})

        processes.kill(self.lab, 'exabgp')
        self._wait_routes({})
        self._wait('end of the announcer',
                   lambda: self.wanted.status() is None)
        self._start_exabgp()
        self._wait_routes({FIRST: NODE_ADDRESS})

    def test_lost_session(self):
        self.wanted.set({FIRST: None})
        self._start_exabgp()
        self._wait_routes({FIRST: NODE_ADDRESS})

        processes.kill(self.lab, 'bird')
        self._wait('session down', lambda: (
            self.wanted.status().sessions_up == 0))
        self.wanted.set({SECOND: None})
        self._start_bird()
        self._wait_routes({SECOND: NODE_ADDRESS})

    def test_route_outside_the_networks(self):
        outside = '198.51.100.1/32'
        announcements.Announcements(
            self.directory, ['0.0.0.0/0']).set({FIRST: None, outside: None})
        self._start_exabgp()

        status = self._wait_status({FIRST})
        self.assertEqual([outside], list(map(str, status.failed)))
        self._wait_routes({FIRST: NODE_ADDRESS})

    def test_route_of_another_family(self):
        prefix = '2001:db8::1/128'
        announcements.Announcements(
            self.directory, ['::/0', NETWORK]).set(
                {prefix: None, FIRST: None})
        self._write_exabgp_config(networks=[NETWORK, '::/0'])
        self._start_exabgp()

        self._wait('report', lambda: (
            self.wanted.status() and self.wanted.status().failed))
        status = self._wait_status({FIRST})
        self.assertEqual([prefix], list(map(str, status.failed)))
        self.assertIn('ipv6 unicast', *status.failed.values())

    def test_router_that_does_not_take_ipv6(self):
        self._write_exabgp_config([dataclasses.replace(
            SESSION, families=('ipv4 unicast', 'ipv6 unicast'))])
        self.wanted.set({FIRST: None, FIRST_V6: NODE_V6})
        self._start_exabgp()

        self._wait_routes({FIRST: NODE_ADDRESS})
        status = self._wait_status({FIRST})
        self.assertEqual({FIRST_V6: f'{ROUTER_ADDRESS} does not take ipv6 '
                                    'unicast'},
                         {str(prefix): why for prefix, why
                          in status.failed.items()})
        self._start_bird(BIRD_BOTH)
        self._wait_routes({FIRST: NODE_ADDRESS, FIRST_V6: NODE_V6})
        self._wait_status({FIRST, FIRST_V6})

    def test_both_families_in_sessions_of_their_own(self):
        self._start_bird(BIRD + BIRD_V6)
        self._write_exabgp_config([SESSION, SESSION_V6])
        self.wanted.set({FIRST: None, FIRST_V6: None})
        self._start_exabgp()

        self._wait_routes({FIRST: NODE_ADDRESS, FIRST_V6: NODE_V6})
        self._wait_status({FIRST, FIRST_V6})
        self._kill_announcer()
        self._wait_status({FIRST, FIRST_V6})
        self.wanted.set({FIRST: None})
        self._wait_routes({FIRST: NODE_ADDRESS})
        self.wanted.set({FIRST_V6: None})
        self._wait_routes({FIRST_V6: NODE_V6})
        self._wait_status({FIRST_V6})

    def test_ipv6_in_an_ipv4_session(self):
        self._start_bird(BIRD_BOTH)
        self._write_exabgp_config([dataclasses.replace(
            SESSION, families=('ipv4 unicast', 'ipv6 unicast'))])
        self.wanted.set({FIRST: None, FIRST_V6: None})
        self._start_exabgp()

        status = self._wait_status({FIRST})
        self.assertEqual([FIRST_V6], list(map(str, status.failed)))
        self.assertIn('next_hop_v6', *status.failed.values())
        self.wanted.set({FIRST: None, FIRST_V6: NODE_V6})
        self._wait_routes({FIRST: NODE_ADDRESS, FIRST_V6: NODE_V6})
        self._wait_status({FIRST, FIRST_V6})
        # A new announcer does not know the next hop of what it withdraws.
        worker = self._worker()
        os.kill(worker, signal.SIGSTOP)
        self.wanted.set({FIRST: None})
        os.kill(worker, signal.SIGKILL)
        self._wait_routes({FIRST: NODE_ADDRESS})
        self._wait_status({FIRST})

    def _start_bird(self, text=BIRD):
        if processes.find(self.lab, 'bird'):
            processes.stop(self.lab, 'bird')
        config = self.lab.directory / 'bird.conf'
        config.write_text(text)
        self._socket = self.directory / 'bird.ctl'
        processes.start(
            self.lab, ROUTER, 'bird',
            ['bird', '-f', '-c', config, '-s', self._socket,
             '-P', self.directory / 'bird.pid'],
            ready=lambda: self._birdc('show status').returncode == 0)

    def _write_exabgp_config(self, sessions=(SESSION,),
                             networks=(NETWORK, NETWORK_V6)):
        command = [sys.executable, '-m', 'octavia_xdp_provider.cmd.announcer',
                   '--file',
                   str(self.directory / announcements.FILE_NAME)]
        for network in networks:
            command += ['--network', network]
        self._config = self.lab.directory / 'exabgp.conf'
        self._config.write_text(exabgp_config.render(
            NODE_ADDRESS, sessions, command))

    def _start_exabgp(self):
        processes.start(
            self.lab, NODE, 'exabgp',
            [pathlib.Path(sys.executable).with_name('exabgp'), self._config],
            env={**exabgp_config.ENVIRONMENT,
                 'exabgp_daemon_user': 'root',
                 'PYTHONPATH': paths.CHECKOUT})

    def _remove_directories(self):
        for log in self.lab.logs.iterdir():
            self.addDetail(log.name, content.text_content(log.read_text()))
        self.lab.remove_directories()
        shutil.rmtree(self.lab.directory)

    def _delete(self, host):
        if namespaces.exists(self.lab, host):
            namespaces.delete(self.lab, host)

    def _wait(self, what, condition):
        return processes.wait_for(what, condition, self.SOON, 0.02)

    def _wait_session(self):
        self._wait('session', lambda: (
            self.wanted.status() and self.wanted.status().sessions_up))

    def _wait_routes(self, expected):
        self._wait(f'routes {expected}', lambda: self._routes() == expected)

    def _wait_status(self, expected):
        def status():
            found = self.wanted.status()
            return found if found and not found.error and (
                set(map(str, found.announced)) == expected) else None

        return self._wait(f'status {expected}', status)

    def _birdc(self, command):
        return subprocess.run(
            ['birdc', '-r', '-s', self._socket, *command.split()],
            capture_output=True, text=True)

    def _routes(self):
        """Next hop of each prefix that BIRD has from the node."""
        found = {}
        prefix = None
        for line in self._birdc('show route').stdout.split('\n'):
            words = line.split()
            if '/' in line and words:
                prefix = words[0]
            elif words[:1] == ['via']:
                found[prefix] = words[1]
        return found

    def _children(self, pid):
        path = pathlib.Path(f'/proc/{pid}/task/{pid}/children')
        try:
            return [int(child) for child in path.read_text().split()
                    if processes.start_time(int(child))]
        except (FileNotFoundError, ProcessLookupError):
            return []

    def _supervisor(self):
        exabgp = processes.find(self.lab, 'exabgp')
        return next(iter(self._children(exabgp.pid)), None)

    def _worker(self):
        def worker():
            supervisor = self._supervisor()
            return supervisor and next(iter(self._children(supervisor)), None)

        return self._wait('worker', worker)

    def _kill_announcer(self):
        os.kill(self._worker(), signal.SIGKILL)
