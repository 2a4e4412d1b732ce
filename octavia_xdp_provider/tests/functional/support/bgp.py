# SPDX-License-Identifier: Apache-2.0
"""A node with a real ExaBGP, and a router with a real BIRD."""

import dataclasses
import pathlib
import re
import subprocess
import sys

from lab import paths
from lab import processes
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.agent.bgp import exabgp_config
from octavia_xdp_provider.agent.bgp.route import Route
from octavia_xdp_provider.tests.functional.support import hosts

NODE = 'lb1'
ROUTER = 'router'
NODE_ADDRESS = '198.18.1.6'
ROUTER_ADDRESS = '198.18.1.5'
NETWORK = '203.0.113.0/24'
NODE_V6 = '2001:db8:1::6'
ROUTER_V6 = '2001:db8:1::5'
NETWORK_V6 = '2001:db8:113::/64'

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
# Router and node in one AS.
BIRD_IBGP = BIRD.replace('65000', '65010')
SESSION = exabgp_config.Neighbour(
    local_address=NODE_ADDRESS, local_as=65010,
    peer_address=ROUTER_ADDRESS, peer_as=65000)
SESSION_IBGP = dataclasses.replace(SESSION, peer_as=65010)
SESSION_V6 = exabgp_config.Neighbour(
    local_address=NODE_V6, local_as=65010, peer_address=ROUTER_V6,
    peer_as=65000, families=('ipv6 unicast',))


class BgpCase(hosts.HostsCase):
    """Both hosts with their link, and the router's BIRD running."""

    def setUp(self):
        super().setUp()
        self.add_hosts(NODE, ROUTER)
        self.cable((NODE, 'eth0', NODE_ADDRESS, NODE_V6),
                   (ROUTER, 'to-lb1', ROUTER_ADDRESS, ROUTER_V6))
        self.directory = self.lab.run_directory
        self.start_bird()

    def start_bird(self, text=BIRD):
        if processes.find(self.lab, 'bird'):
            processes.stop(self.lab, 'bird')
        config = self.lab.directory / 'bird.conf'
        config.write_text(text)
        self.bird_socket = self.directory / 'bird.ctl'
        processes.start(
            self.lab, ROUTER, 'bird',
            ['bird', '-f', '-c', config, '-s', self.bird_socket,
             '-P', self.directory / 'bird.pid'],
            ready=lambda: self.birdc('show status').returncode == 0)

    def write_exabgp_config(self, sessions=(SESSION,),
                            networks=(NETWORK, NETWORK_V6), command=None):
        """With the announcer as ExaBGP's child, or another command."""
        if command is None:
            command = [sys.executable, '-m',
                       'octavia_xdp_provider.cmd.announcer', '--file',
                       str(self.directory / announcements.FILE_NAME)]
            for network in networks:
                command += ['--network', network]
        self._exabgp_config = self.lab.directory / 'exabgp.conf'
        self._exabgp_config.write_text(exabgp_config.render(
            NODE_ADDRESS, sessions, command))

    def start_exabgp(self):
        processes.start(
            self.lab, NODE, 'exabgp',
            [pathlib.Path(sys.executable).with_name('exabgp'),
             self._exabgp_config],
            env={**exabgp_config.ENVIRONMENT,
                 'exabgp_daemon_user': 'root',
                 'PYTHONPATH': paths.CHECKOUT})

    def wait_routes(self, expected):
        self.wait(f'routes {expected}', lambda: self.routes() == expected)

    def birdc(self, command):
        return subprocess.run(
            ['birdc', '-r', '-s', self.bird_socket, *command.split()],
            capture_output=True, text=True)

    def routes(self):
        """Next hop of each prefix that BIRD has from the node."""
        return {prefix: shown['via'] for prefix, shown
                in self._shown_routes().items()}

    def routes_with_attributes(self):
        """Route by the text of its prefix, as BIRD has them."""
        routes = {}
        for prefix, shown in self._shown_routes().items():
            path = shown.get('BGP.as_path', '').split()
            preference = int(shown['BGP.local_pref'])
            routes[prefix] = Route.parse(
                prefix, shown['via'],
                _communities(shown.get('BGP.community', '')),
                _communities(shown.get('BGP.large_community', '')),
                int(shown['BGP.med']) if 'BGP.med' in shown else None,
                # BIRD's value for routes without a preference.
                None if preference == 100 else preference,
                max(len(path) - 1, 0))
        return routes

    def _shown_routes(self):
        """Prefix → name → text of what BIRD shows of each route."""
        routes = {}
        shown = {}
        for line in self.birdc('show route all').stdout.split('\n'):
            words = line.split()
            if '/' in line and words and not line.startswith('\t'):
                shown = routes[words[0]] = {}
            elif words[:1] == ['via']:
                shown['via'] = words[1]
            elif words and words[0].endswith(':'):
                shown[words[0][:-1]] = line.partition(':')[2].strip()
        return {prefix: shown for prefix, shown in routes.items()
                if 'via' in shown and 'BGP.local_pref' in shown}


def _communities(text):
    """Parse "(65000,1) (65000,2)" or "(65000, 1, 2)"."""
    return [community.replace(' ', '').replace(',', ':')
            for community in re.findall(r'\(([0-9, ]+)\)', text)]
