# SPDX-License-Identifier: Apache-2.0
"""VIPs of both families, and QUIC, with real clients and servers."""

import json
import sys
import types

from lab import paths
from lab import processes
from lab.fabric import client
from lab.fabric import members
from lab.fabric import topology
from octavia_xdp_provider.tests.e2e.support import base
from octavia_xdp_provider.tests.support import form

QUIC_PORT = 4433


class TestDualStack(base.LabTestCase):

    def test_both_vips_are_announced_answer_ping_and_serve_all_members(self):
        balancer, *_ = self.create_web(balancer_options={
            'additional_vips': [{'subnet_id': self.subnet('vips-v6')}]})
        second = types.SimpleNamespace(
            vip_address=balancer.additional_vips[0]['ip_address'])
        self.assertIn(':', second.vip_address)
        self.add_vip(second)
        self.wait_routes(second)
        self.wait_enabled(second, len(topology.MEMBERS))
        for vip in (balancer, second):
            answers = client.requests(self.lab, self.url(vip), 100)
            self.assertEqual([], answers.failures)
            self.assertEqual(set(topology.MEMBERS), set(answers.count))
            done = processes.run(self.lab, client.CLIENT, [
                'ping', '-n', '-c', '5', '-i', '0.05', '-W', '2',
                vip.vip_address])
            self.assertIn(' 0% packet loss', done.stdout)
        self.delete_balancer(balancer)
        for vip in (balancer, second):
            self.wait_routes(vip, hosts=())


@form.in_long_form
class TestQuic(base.LabTestCase):

    def start_servers(self, balancer):
        for host in topology.MEMBERS:
            name = f'{host}-quic'
            processes.start(self.lab, host, name, [
                sys.executable, '-m', 'lab.fabric.quic_server',
                balancer.vip_address, str(QUIC_PORT), host,
                members.address(host)], cwd=paths.CHECKOUT)
            self.addCleanup(processes.stop, self.lab, name)

    def ask(self, balancer, connections, moves):
        done = processes.run(self.lab, client.CLIENT, [
            sys.executable, '-m', 'lab.fabric.quic_client',
            balancer.vip_address, str(QUIC_PORT), str(connections),
            str(moves)], cwd=paths.CHECKOUT, timeout=120)
        return json.loads(done.stdout)

    def test_quic_connection_keeps_its_member_when_the_client_moves(self):
        """A client's change of address keeps its member."""
        flavor = self.create_flavor(quic=True)
        balancer, *_ = self.create_web(
            port=QUIC_PORT, protocol='UDP', monitor=None,
            balancer_options={'flavor_id': flavor})
        self.start_servers(balancer)
        self.wait('QUIC servers', lambda: self.answers(balancer))
        connections = self.ask(balancer, 12, 6)
        self.assertLess(1, len({names[0] for names in connections}))
        for names in connections:
            self.assertEqual(7, len(names))
            self.assertEqual(1, len(set(names)), names)

    def answers(self, balancer):
        try:
            seen = self.ask(balancer, 8, 0)
        except paths.LabError:
            return False
        return len(seen) == 8
