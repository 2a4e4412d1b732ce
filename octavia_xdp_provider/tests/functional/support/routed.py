# SPDX-License-Identifier: Apache-2.0
"""A node in a network namespace, with an uplink to each of two routers."""

import itertools
import tempfile

from lab import namespaces
from octavia_xdp_provider.agent.uplinks import monitor
from octavia_xdp_provider.config import options
from octavia_xdp_provider.tests.functional.support import hosts

NODE = 'node'
ROUTERS = ('r1', 'r2')


class Routed(hosts.HostsCase):
    """A node with an uplink, IPv4 and IPv6, to each of two routers."""

    def setUp(self):
        super().setUp()
        self.add_hosts(NODE, *ROUTERS)
        for number, router in enumerate(ROUTERS, start=1):
            link = f'eth{number}'
            self.cable(*((host, name, f'198.51.10{number}.{last}',
                          f'2001:db8:{number}::{last}')
                         for host, name, last in ((NODE, link, 2),
                                                  (router, 'node', 1))))
            self.ip(NODE, 'route', 'add', 'default', 'via',
                    f'198.51.10{number}.1', 'metric', str(number))
            self.ip(NODE, 'route', 'add', 'default', 'via',
                    f'2001:db8:{number}::1', 'dev', link, 'metric',
                    str(number))

    def load(self, text):
        with tempfile.NamedTemporaryFile('w', suffix='.conf') as file:
            file.write(text)
            file.flush()
            return options.load(config_files=[file.name])


class MonitoredUplinks(Routed):
    """An uplink monitor on a datapath of its own."""

    def setUp(self):
        super().setUp()
        self.mount_bpffs()
        self.datapath = self.open(NODE)
        self.changes = itertools.count()

    def start(self, text='uplinks = eth1, eth2\n'):
        started = monitor.UplinkMonitor(
            self.load('[agent]\n'
                      f'run_directory = {self.lab.run_directory}\n'
                      f'{text}'), self.datapath,
            lambda: next(self.changes))
        with namespaces.inside(self.lab, NODE):
            self.addCleanup(started.stop)
            started.start()
        self.monitor = started
        return started

    def next_hops(self):
        """(uplink, version) → MAC of the next hop that packets take."""
        return {(state.name, version): state.hop(version).mac
                for state in self.monitor.states for version in (4, 6)
                if not state.problem and state.hop(version).mac}

    def wait_next_hops(self, *expected):
        self.wait(f'next hops {expected}; there are {self.next_hops()}',
                  lambda: set(self.next_hops()) == set(expected))

    def index(self, link):
        with namespaces.link(self.lab, NODE) as route:
            return route.link_lookup(ifname=link)[0]
