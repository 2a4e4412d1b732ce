# SPDX-License-Identifier: Apache-2.0
"""What dies, is drained or deleted while clients send requests."""

import os
import signal
import time

from lab.fabric import client
from octavia_xdp_provider.tests.e2e.support import proxied

# As curl's exit status.
REFUSED = '7'


class TestFaults(proxied.SharedCase):

    def load(self):
        return client.Load(self.lab, self.url(self.balancer), timeout=5)

    def wait_answers(self, load, number=20):
        """Wait for so many more answers."""
        wanted = load.answers.total + number
        self.wait('answers', lambda: load.answers.total >= wanted)

    def test_killed_haproxy_breaks_only_what_it_serves(self):
        states = {node: self.state(node, self.balancer)
                  for node in self.nodes}
        with self.load() as load:
            self.wait_answers(load)
            for node, state in states.items():
                os.kill(state['pid'], signal.SIGKILL)
                self.wait('another master', lambda node=node, state=state: (
                    self.state(node, self.balancer)['restarts']
                    > state['restarts']))
            self.wait_answers(load)
        # At most the one request that it was serving, of each.
        self.assertLessEqual(len(load.answers.failures), len(states),
                             load.answers.failures)
        self.assertEqual([], [text for text in load.answers.failures
                              if text.split()[1] == REFUSED])

    def test_lost_node_is_taken_out_and_returns(self):
        victim = self.nodes[1]
        with self.load() as load:
            self.wait_answers(load)
            self.lost(victim)
            self.wait_proxies(self.balancer, 1)
            taken_out_at = time.monotonic()
            self.wait_answers(load, 50)
        # What had begun before may have waited for the lost node.
        self.assertEqual([], [begun for begun in load.times
                              if begun > taken_out_at])
        proxied.proxies.restore(self.lab, victim)
        self.wait_proxies(self.balancer, 2)
        self.check_requests(self.balancer)

    def test_drained_node_breaks_nothing(self):
        victim = self.nodes[0]
        self.addCleanup(self.manage, 'node', 'enable', victim)
        with self.load() as load:
            self.wait_answers(load)
            self.manage('node', 'drain', victim)
            self.wait_proxies(self.balancer, 1)
            self.wait_answers(load)
            self.manage('node', 'enable', victim)
            self.wait_proxies(self.balancer, 2)
            self.wait_answers(load)
        self.assertEqual([], load.answers.failures)


class TestEnd(proxied.ProxiedCase):

    def test_nothing_is_left_of_a_deleted_load_balancer(self):
        before = {node: self.allowed(node) for node in self.nodes}
        balancer, _, _, _ = self.create_http()
        self.assertEqual(set(self.nodes), set(self.processes_of(balancer)))
        for node in self.nodes:
            self.assertEqual(2, len(self.allowed(node) - before[node]))
        self.delete_balancer(balancer)
        self.wait(lambda: f'end of {self.remains(balancer)}',
                  lambda: not self.remains(balancer))
        self.assertEqual(before, {node: self.allowed(node)
                                  for node in self.nodes})
        for node in proxied.topology.NODES:
            with self.datapath(node) as opened:
                self.assertIsNone(opened.service(self.key(balancer)))
