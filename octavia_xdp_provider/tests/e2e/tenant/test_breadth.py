# SPDX-License-Identifier: Apache-2.0
"""Families, protocols and encapsulations, with real clients and servers."""

import ipaddress
import json
import sys
import types

from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import l2

from lab import namespaces
from lab import paths
from lab import processes
from lab.fabric import capture
from lab.fabric import client
from lab.fabric import links
from lab.fabric import members
from lab.fabric import topology
from octavia_xdp_provider.tests.e2e.support import base
from octavia_xdp_provider.tests.support import form

QUIC_PORT = 4433


class DualStackCase(base.LabTestCase):

    def create_dual(self, balancer_options=None, **options):
        """A load balancer with a VIP of each family, and both.

        :returns: the load balancer, IP version → what has a `vip_address`.
        """
        balancer, *_ = self.create_web(balancer_options={
            'additional_vips': [{'subnet_id': self.subnet('vips-v6')}],
            **(balancer_options or {})}, **options)
        second = types.SimpleNamespace(
            vip_address=balancer.additional_vips[0]['ip_address'])
        self.assertIn(':', second.vip_address)
        self.add_vip(second)
        self.wait_routes(second)
        return balancer, {4: balancer, 6: second}

    def check(self, vip):
        answers = client.requests(self.lab, self.url(vip), 100)
        self.assertEqual([], answers.failures)
        self.assertEqual(set(topology.MEMBERS), set(answers.count))
        return answers


class TestDualStack(DualStackCase):

    def test_both_vips_are_announced_answer_ping_and_serve_all_members(self):
        balancer, vips = self.create_dual()
        for vip in vips.values():
            self.check(vip)
            done = processes.run(self.lab, client.CLIENT, [
                'ping', '-n', '-c', '5', '-i', '0.05', '-W', '2',
                vip.vip_address])
            self.assertIn(' 0% packet loss', done.stdout)
        self.delete_balancer(balancer)
        for vip in vips.values():
            self.wait_routes(vip, hosts=())


@form.in_long_form
class TestProtocols(base.LabTestCase):

    def test_udp_reaches_members_over_ipv6(self):
        balancer, *_ = self.create_web(
            version=6, port=members.UDP_PORT, protocol='UDP', monitor=None)
        answers = client.udp(self.lab, balancer.vip_address,
                             members.UDP_PORT, 100)
        self.assertEqual([], answers.failures)
        self.assertEqual(set(topology.MEMBERS), set(answers.count))

    def test_https_passes_through_to_members(self):
        """By Octavia's word; what goes over it is the members' business."""
        balancer, *_ = self.create_web(protocol='HTTPS', monitor='TCP')
        answers = client.requests(self.lab, self.url(balancer), 100)
        self.assertEqual([], answers.failures)
        self.assertEqual(set(topology.MEMBERS), set(answers.count))

    def test_algorithms_are_served_by_the_hash_where_a_flavor_says_so(self):
        flavor = self.create_flavor(
            algorithms_served_by_hash=['ROUND_ROBIN'])
        balancer, _, pool, _ = self.create_web(
            pool_options={'lb_algorithm': 'ROUND_ROBIN'},
            balancer_options={'flavor_id': flavor})
        self.assertEqual('ROUND_ROBIN', self.sdk.get_pool(
            pool.id).lb_algorithm)
        answers = client.requests(self.lab, self.url(balancer), 100)
        self.assertEqual([], answers.failures)
        self.assertEqual(set(topology.MEMBERS), set(answers.count))


@form.in_long_form
class TestEncapsulations(DualStackCase):

    # Half of the members have an IPv6 address, and IPv4 the others.
    OVER_IPV6 = topology.MEMBERS[2:]

    def check_all(self, encapsulation, filters):
        """VIPs of both families, each with members of both.

        :param filters: families of VIP and member → what arrives there.
        """
        _, vips = self.create_dual(
            {'flavor_id': self.create_flavor(encapsulation=encapsulation)},
            member_options={host: {'address': members.address(host, 6)}
                            for host in self.OVER_IPV6})
        hosts = {4: topology.MEMBERS[0], 6: self.OVER_IPV6[0]}
        for (version, member_version), expression in filters.items():
            with self.subTest(vip=version, member=member_version):
                self.check_arrival(vips[version], hosts[member_version],
                                   expression)

    def check_arrival(self, vip, host, expression):
        with capture.at_member(self.lab, host, expression) as taken:
            answers = self.check(vip)
        arrived = [packet for packet in taken.packets if packet.outgoing]
        # SYN, ACK, request
        self.assertGreaterEqual(len(arrived), 3 * answers.count[host])

    def test_ipip_reaches_members_of_both_families(self):
        self.check_all('ipip', {
            (4, 4): 'ip proto 4', (6, 4): 'ip proto 41',
            (4, 6): 'ip6 proto 4', (6, 6): 'ip6 proto 41'})

    def test_gue_reaches_members_of_both_families(self):
        self.check_all('gue', {
            (4, 4): 'ip and udp dst port 6080',
            (6, 4): 'ip and udp dst port 6080',
            (4, 6): 'ip6 and udp dst port 6080',
            (6, 6): 'ip6 and udp dst port 6080'})

    def test_gre_reaches_members_of_both_families(self):
        self.check_all('gre', {
            (4, 4): 'ip proto 47', (6, 4): 'ip proto 47',
            (4, 6): 'ip6 proto 47', (6, 6): 'ip6 proto 47'})

    def test_dscp_reaches_members_of_the_vips_family(self):
        dscp = 0x1c
        flavor = self.create_flavor(encapsulation='dscp', dscp=dscp)
        # 0x1c << 2 in the type of service or traffic class
        for version, expression in {
                4: 'ip[1] & 0xfc = 0x70 and tcp dst port 80',
                6: 'ip6[0:2] & 0x0fc0 = 0x0700'}.items():
            with self.subTest(version=version):
                balancer, *_ = self.create_web(
                    version=version, balancer_options={'flavor_id': flavor})
                members.add_vip(self.lab, balancer.vip_address,
                                topology.MEMBERS, dscp)
                self.check_arrival(balancer, topology.MEMBERS[0], expression)
                self.delete_balancer(balancer)


@form.in_long_form
class TestSegmentRouting(base.LabTestCase):
    """The members' kernels end the segment, no program of ours."""

    FUNCTION = 0xd4

    def network(self, host):
        """The member's own /112: the end of an address is a function."""
        return ipaddress.ip_network(
            (int(paths.MEMBER_NETWORK_V6[0])
             + (0x1000 + paths.number(host) << 16), 112))

    def prepare(self, host):
        """An address that answers health checks, and the SID."""
        own = self.network(host)[1]
        sid = self.network(host)[self.FUNCTION]
        namespaces.address(self.lab, host, links.UPLINK, f'{own}/128')
        # The router's route to the whole /112 is the member.
        self.change_route(links.ROUTER, self.network(host),
                          'via', members.address(host, 6))
        self.change_route(host, sid, 'encap', 'seg6local', 'action',
                          'End.DX4', 'nh4', '0.0.0.0', 'dev', links.UPLINK)
        return {'address': str(own)}

    def change_route(self, host, destination, *how):
        command = ['ip', '-6', 'route']
        processes.run(self.lab, host,
                      [*command, 'add', str(destination), *how])
        self.addCleanup(processes.run, self.lab, host,
                        [*command, 'del', str(destination)])

    def test_srv6_ends_in_the_members_kernels(self):
        flavor = self.create_flavor(encapsulation='srv6',
                                    srv6_function=self.FUNCTION)
        ends = {host: self.prepare(host) for host in topology.MEMBERS}
        balancer, *_ = self.create_web(
            member_options=ends, balancer_options={'flavor_id': flavor})
        with capture.at_member(self.lab, 'member1', 'ip6 proto 4') as taken:
            answers = client.requests(self.lab, self.url(balancer), 100)
        self.assertEqual([], answers.failures)
        self.assertEqual(set(topology.MEMBERS), set(answers.count))
        sid = self.network('member1')[self.FUNCTION].packed
        arrived = [packet for packet in taken.packets if packet.outgoing]
        self.assertGreaterEqual(len(arrived), 3 * answers.count['member1'])
        self.assertEqual({sid}, {packet.data[38:54] for packet in arrived})


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


@form.in_long_form
class TestPathMtu(base.LabTestCase):

    def setUp(self):
        super().setUp()
        # Links to the LB nodes without room for an outer header.
        for node in topology.NODES:
            links.set_mtu(self.lab, node, links.UPLINK, links.CLIENT_MTU)
            self.addCleanup(links.set_mtu, self.lab, node, links.UPLINK,
                            links.FABRIC_MTU)
        # The client shall learn it from the nodes, not from the members.
        members.set_mss(self.lab, 'off', topology.MEMBERS)
        self.addCleanup(members.set_mss, self.lab, 'auto', topology.MEMBERS)

    def test_upload_over_a_small_mtu_does_not_stall(self):
        for version in (4, 6):
            with self.subTest(version=version):
                balancer, *_ = self.create_web(version=version)
                self.wait_limit(balancer)
                upload = self.lab.directory / 'upload'
                upload.write_bytes(bytes(4 << 20))
                body = client.curl(
                    self.lab, self.url(balancer), '--data-binary',
                    f'@{upload}', '-w', '%{size_upload}', '-o', '/dev/null',
                    timeout=20)
                self.assertEqual(str(4 << 20), body)
                self.delete_balancer(balancer)

    def test_datagrams_learn_the_path_mtu(self):
        for version, limit in ((4, 1480), (6, 1460)):
            with self.subTest(version=version):
                balancer, *_ = self.create_web(
                    version=version, port=members.UDP_PORT, protocol='UDP',
                    monitor=None)
                self.assertEqual(limit, client.path_mtu(
                    self.lab, balancer.vip_address, members.UDP_PORT))
                self.delete_balancer(balancer)

    def wait_limit(self, balancer):
        """Wait until the nodes refuse a full packet of a client.

        That shows it without sending one, from which the client would learn.
        """
        vip = balancer.vip_address
        if ':' in vip:
            packet = inet6.IPv6(src=paths.CLIENT_ADDRESS_V6, dst=vip)
        else:
            packet = inet.IP(src=paths.CLIENT_ADDRESS, dst=vip, flags='DF')
        packet /= inet.TCP(sport=40000, dport=80, flags='A')
        packet /= bytes(links.CLIENT_MTU - len(packet))
        frame = bytes(l2.Ether(dst='02:00:00:00:00:02',
                               src='02:00:00:00:00:01') / packet)
        for node in topology.NODES:
            with self.datapath(node) as opened:
                self.wait(f'MTU on {node}', lambda opened=opened: (
                    self._is_answered(opened, frame)))

    def _is_answered(self, opened, frame):
        """Whether the node answers with less than what it got."""
        with opened.simulation() as simulation:
            return len(simulation.run(frame, 0).frame) < len(frame)
