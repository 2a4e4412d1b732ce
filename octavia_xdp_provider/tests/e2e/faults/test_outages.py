# SPDX-License-Identifier: Apache-2.0
"""Links that are out for a time, while no member changes."""

import time

from lab import paths
from lab import processes
from lab.fabric import connections
from lab.fabric import links
from lab.fabric import members
from lab.fabric import nodes
from lab.fabric import topology
from octavia_xdp_provider.tests.e2e.support import base
from octavia_xdp_provider.tests.e2e.support import shared
from octavia_xdp_provider.tests.support import form

NODE = 'lb1'
CONNECTIONS = 240
# Those of the long form are as long as a hold time and longer.
SECONDS = (1, 4, 12, 60) if form.LONG else (4,)
# An open slot closes after it.
IDLE_S = 10


class TestOutages(shared.WebTestCase):

    def setUp(self):
        super().setUp()
        self.wait_closed()

    def share(self):
        return self.create_web(balancer_options={
            'flavor_id': self.create_flavor(idle_timeout=IDLE_S)})

    def wait_closed(self):
        """Wait until no node has open slots.

        On a busy machine the first results of new members come to a node one
        by one. Each opens slots there, for flows that may be older; those
        that another node has taken meanwhile would be sent to the member
        before.
        """
        def closed():
            for node in topology.NODES:
                with self.datapath(node) as opened:
                    if opened.service(self.key(self.balancer)).open_slots:
                        return False
            return True
        self.wait('closed slots', closed)

    def link(self, state):
        """The link of one node, at the router's end; the node sees it."""
        processes.run(self.lab, links.ROUTER,
                      ['ip', 'link', 'set', NODE, state])

    def carrier_loss(self):
        self.addCleanup(self.link, 'up')
        return lambda: self.link('down'), lambda: self.link('up')

    def assert_unbroken(self, down, up, outage):
        """No connection breaks or meets another member, and no member goes
        down on any node.

        :param outage: called while the link is down.
        """
        with connections.Connections(
                self.lab, self.balancer.vip_address,
                number=CONNECTIONS, timeout=10) as alive:
            before = alive.ask()
            self.assertEqual(set(topology.MEMBERS), set(before))
            self.assertGreater(self.flows(NODE), CONNECTIONS / 4)
            down()
            try:
                outage(alive, before)
            finally:
                up()
            self.wait_routes(self.balancer)
            for _ in range(4):
                self.assertEqual(before, alive.ask())
                self.assert_all_up()
                self.sleep(1)

    def assert_all_up(self):
        for node in topology.NODES:
            self.assertEqual(len(topology.MEMBERS),
                             self.enabled(node, self.balancer), node)

    def flows(self, node):
        with self.datapath(node) as opened:
            return opened.service(self.key(self.balancer)).counters.flows

    def stay_out(self, seconds):
        """An outage in which connections are used as soon as another node
        has them all, so that no server closes an idle one."""
        def outage(alive, before):
            end = time.monotonic() + seconds
            while (left := end - time.monotonic()) > 0:
                if self.next_hops(self.balancer) == [nodes.address('lb2')]:
                    self.assertEqual(before, alive.ask())
                    left = end - time.monotonic()
                self.sleep(max(0, min(left, 1)))
            self.assert_all_up()
        return outage

    def test_carrier_loss_breaks_no_connection(self):
        for seconds in SECONDS:
            with self.subTest(seconds=seconds):
                self.assert_unbroken(*self.carrier_loss(),
                                     self.stay_out(seconds))

    @form.in_long_form
    def test_a_member_that_dies_in_an_outage_is_found_before_the_return(self):
        down, up = self.carrier_loss()
        down()
        try:
            self.wait_routes(self.balancer, ['lb2'])
            self.end_server(members.http_name('member2'))
            self.wait('3 members on lb2', lambda: (
                self.enabled('lb2', self.balancer) == 3))
            self.assertEqual(4, self.enabled(NODE, self.balancer))
        finally:
            up()
        seen = []

        def returned():
            seen.append((self.enabled(NODE, self.balancer),
                         len(self.next_hops(self.balancer))))
            return seen[-1][1] == 2
        self.wait('return', returned, interval=0.05)
        self.assertEqual({(3, 2)}, {numbers for numbers in seen
                                    if numbers[1] == 2})

    @form.in_long_form
    def test_ipv4_goes_on_while_ipv6_is_out(self):
        balancer, *_ = self.create_web(version=6)
        _own, next_hop = paths.uplink_addresses(paths.number(NODE), 6)

        def route(action):
            processes.run(self.lab, NODE, [
                'ip', '-6', 'route', action, 'default', 'via', next_hop])
        self.addCleanup(route, 'replace')
        route('del')
        self.wait('withdrawal', lambda: self.next_hops(balancer) == [
            nodes.address('lb2', 6)])
        self.sleep(base.DELAY * (base.FALL + 1))
        self.assertEqual(4, self.enabled(NODE, balancer))
        self.assertEqual(4, self.enabled(NODE, self.balancer))
        self.assertEqual(2, len(self.next_hops(self.balancer)))
        route('replace')
        self.wait_routes(balancer)
        self.assertEqual(4, self.enabled(NODE, balancer))
