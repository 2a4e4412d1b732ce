# SPDX-License-Identifier: Apache-2.0
"""Packets through a hypervisor, each compared with the model."""

import itertools

from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import sctp

from octavia_xdp_provider.host import types
from octavia_xdp_provider.tests.packets.support import host
from octavia_xdp_provider.tests.packets.support import host_case

SYN, SYN_ACK, ACK, FIN_ACK, RST = 'S', 'SA', 'A', 'FA', 'R'
MSS = [('MSS', 1400)]
OUTERS = ({}, {'v6': True}, {'v6': True, 'geneve': False})


class TestFlows(host_case.HostCase):

    def test_both_ways_of_each_kind(self):
        for v6, protocol, outer in itertools.product(
                (False, True), host.PROTOCOLS, OUTERS):
            with self.subTest(v6=v6, protocol=protocol, outer=outer):
                data = self.arrives('IN', v6, protocol=protocol, outer=outer)
                self.assertEqual(host.VM, data[:6].hex(':'))
                sent = inet6.IPv6(data[14:]) if v6 else inet.IP(data[14:])
                self.assertEqual((host.FIXED, host.FIXED6)[v6], sent.dst)
                self.assertEqual(host.LOCAL_PORT, sent.payload.dport)
                data = self.answers('OUT', v6, protocol)
                sent = inet6.IPv6(data[14:]) if v6 else inet.IP(data[14:])
                self.assertEqual((host.VIP, host.VIP6)[v6], sent.src)
                self.assertEqual(host.LISTENER, sent.payload.sport)
        self.host.check_flows()
        self.host.check_outcomes()

    def test_flow_is_confirmed_by_the_client_after_the_answer(self):
        self.arrives('IN', False, flags=SYN)
        self.arrives('IN', False, flags=SYN)
        self.assertEqual([], self.confirmed())
        self.answers('OUT', False, flags=SYN_ACK)
        self.assertEqual([], self.confirmed())
        self.arrives('IN', False)
        flow, = self.confirmed()
        self.assertEqual((host.CLIENT, 40000), (flow.client, flow.client_port))
        self.assertEqual(1, self.host.datapath.ports()[0].flows)
        self.host.check_flows()

    def test_same_fixed_ip_of_two_ports(self):
        self.arrives('IN', False, number=1)
        data = self.arrives('IN', False, number=2)
        self.assertEqual(host.OTHER_VM, data[:6].hex(':'))
        self.answers('OUT', False)
        self.answers('OUT', False, port_id=host.OTHER_PORT)
        self.host.check_flows()

    def test_second_listener_of_a_port_waits_until_the_first_flow_ends(self):
        self.arrives('IN', False, number=3, flags=SYN)
        other = {'number': 4, 'vip': host.OTHER_VIP}
        self.arrives('DROP_COLLISION', False, flags=SYN, **other)
        self.arrives('IN', False, number=3, flags=FIN_ACK)
        self.arrives('IN', False, flags=SYN, **other)
        data = self.answers('OUT', False, port=9090, flags=SYN_ACK)
        self.assertEqual(host.OTHER_VIP, inet.IP(data[14:]).src)
        self.host.check_outcomes()
        self.host.check_flows()

    def direct_packet(self, v6, **packet):
        """A client's, to the VM past the load balancer."""
        direct = self.client_packet(v6, **packet)
        direct.dst = (host.FIXED, host.FIXED6)[v6]
        direct.payload.dport = host.LOCAL_PORT
        return direct

    def test_vm_opens_no_connection_from_the_vip(self):
        """A flow's earlier packets of either side make no difference."""
        for v6 in (False, True):
            self.answers('PASS', v6, flags=ACK, dport=5)
            self.answers('PASS', v6, flags=SYN, dport=5)
            self.host.tap_out(host.from_vm(self.direct_packet(
                v6, flags=SYN_ACK, sport=5)))
            self.answers('PASS', v6, flags=ACK, dport=5)
            for flags in (SYN, ACK):
                self.arrives('IN', v6, flags=flags, sport=6)
                self.answers('PASS', v6, flags=SYN, dport=6)
                self.answers('OUT', v6, flags=SYN_ACK, dport=6)
        self.host.check_flows()
        self.host.check_outcomes()

    def test_vm_opens_no_association_from_the_vip(self):
        """The type of an SCTP chunk tells whether it opens a flow."""
        entry = types.Entry(90, host.PORT, host.VIP, 80, host.FIXED, 80,
                            'sctp', host.VM, host.GATEWAY)
        self.host.datapath.set_entry(entry)
        self.host.model.entries[90] = host.model_entry(entry)
        self.host.set_rules(host.PORT, (), is_open=True)
        data = sctp.SCTPChunkData(data=b'x')
        for options, chunk in itertools.product(
                ([], [inet.IPOption_NOP()] * 4), (sctp.SCTPChunkInit(), data)):
            request = host.ip(
                False, host.CLIENT, host.VIP, options=options
                ) / sctp.SCTP(sport=7, dport=80) / chunk
            self.assertEqual('IN', self.host.nic(host.encapsulated(
                request, 90, inner_v6=False))[2])
            for answer, outcome in ((sctp.SCTPChunkInit(), 'PASS'),
                                    (sctp.SCTPChunkInitAck(), 'OUT'),
                                    (data, 'OUT')):
                self.assertEqual(outcome, self.host.tap_in(host.from_vm(
                    host.ip(False, host.FIXED, host.CLIENT, options=options)
                    / sctp.SCTP(sport=80, dport=7) / answer))[2])
        self.host.check_flows()
        self.host.check_outcomes()

    def test_connections_that_nothing_is_known_of_are_the_vms_own(self):
        """They began before the entry was there, and the VM speaks first."""
        for v6 in (False, True):
            for port in (host.LOCAL_PORT, 9090):
                for flags in ('PA', ACK, FIN_ACK, RST):
                    self.answers('PASS', v6, flags=flags, port=port)
            self.host.tap_out(host.from_vm(self.direct_packet(v6)))
            self.answers('PASS', v6)
        self.host.check_flows()
        self.host.check_outcomes()

    def test_answers_of_a_vm_that_arrives_wait_for_its_flows(self):
        self.host.bring_tap(host.PORT)
        for v6 in (False, True):
            for port in (host.LOCAL_PORT, 9090):
                for flags in ('PA', FIN_ACK, RST):
                    self.answers('DROP_ARRIVING', v6, flags=flags, port=port)
                for flags in (SYN, SYN_ACK):
                    self.answers('PASS', v6, flags=flags, port=port)
                self.answers('PASS', v6, 'udp', port=port)
            self.answers('PASS', v6, port_id=host.OTHER_PORT)
            # what the client sends says which way it came
            self.host.tap_out(host.from_vm(self.direct_packet(v6)))
            self.answers('PASS', v6)
            self.arrives('IN', v6, sport=7)
            self.answers('OUT', v6, dport=7)
            self.arrives('IN', v6)
            self.host.tap_out(host.from_vm(self.direct_packet(v6)))
            self.answers('OUT', v6)
            self.host.check_flows()
        self.host.check_outcomes()

    def test_errors_about_direct_connections_are_no_listeners(self):
        self.host.bring_tap(host.PORT)
        direct = self.direct_packet(False)
        self.host.tap_out(host.from_vm(direct))
        frame = host.from_vm(host.ip(False, host.FIXED, host.CLIENT) /
                             inet.ICMP(type=3, code=3) / bytes(direct)[:28])
        self.assertEqual('PASS', self.host.tap_in(frame)[2])
        answer = self.vm_packet(False)
        answer.src, answer.payload.sport = host.VIP, host.LISTENER
        error = host.ip(False, '198.51.100.254', host.VIP) / (
            inet.ICMP(type=3, code=4, nexthopmtu=1300) / bytes(answer)[:60])
        self.assertEqual('DROP_ICMP', self.host.nic(host.encapsulated(
            error, host.key(1, 'tcp', False), inner_v6=False))[2])
        self.host.check_outcomes()

    def test_mss_of_what_a_vm_offers_is_lowered(self):
        for v6 in (False, True):
            self.arrives('IN', v6, flags=SYN)
            options = [('NOP', None), ('MSS', 1400), ('SAckOK', b'')]
            data = self.answers('OUT', v6, flags=SYN_ACK, options=options)
            sent = inet6.IPv6(data[14:]) if v6 else inet.IP(data[14:])
            self.assertEqual(1300, dict(sent.payload.options)['MSS'])

    def test_state_is_there_for_the_next_process(self):
        self.arrives('IN', False)
        self.answers('OUT', False)
        self.arrives('IN', False)
        self.host.datapath.close()
        self.host.datapath = self.host.open()
        self.host.check_flows()
        self.answers('OUT', False, flags='PA')
        self.assertEqual(10, sum(
            state.entry.protocol == 'tcp'
            for state in self.host.datapath.entries()))


class TestRefused(host_case.HostCase):

    def test_outer_packets_that_are_not_ours_or_wrong(self):
        for outer, outcome in (
                ({'source': host.FOREIGN}, 'DROP_SOURCE'),
                ({'source': host.FOREIGN6, 'v6': True}, 'DROP_SOURCE'),
                ({'flags': 'MF'}, 'PASS'),
                ({'chksum': 7}, 'DROP_MALFORMED'),
                ({'tos': 3}, 'DROP_ECN')):
            self.arrives(outcome, False, outer=outer)
        self.arrives('DROP_KEY', False, number=9)
        self.arrives('PASS', False, number=9, outer={'source': host.FOREIGN})
        self.host.check_outcomes()

    def test_inner_packets_that_are_not_the_keys(self):
        self.arrives('DROP_MISMATCH', False, vip=host.OTHER_VIP)
        for inner in (
                self.client_packet(False, 'udp'),
                host.ip(False, host.CLIENT, host.VIP) / inet.ICMP(),
                host.ip(False, host.CLIENT, host.VIP) / inet.TCP(dport=81)):
            self.assertEqual('DROP_MISMATCH', self.host.nic(host.encapsulated(
                inner, host.key(1, 'tcp', False), inner_v6=False))[2])
        self.arrives('DROP_NO_TAP', False, number=5)
        self.host.check_outcomes()

    def test_ecn_of_outer_and_inner_header(self):
        for v6, inner, outer in itertools.product(
                (False, True), range(4), range(4)):
            packet = self.client_packet(v6)
            if v6:
                packet.tc = 0xb8 | inner
            else:
                packet.tos = 0xb8 | inner
            result = self.host.nic(host.encapsulated(
                packet, host.key(1, 'tcp', v6), inner_v6=v6,
                tos=0xb8 | outer))
            self.assertEqual('DROP_ECN' if (inner, outer) == (0, 3) else 'IN',
                             result[2])


class TestGroups(host_case.HostCase):

    def test_rules_are_judged_again_when_they_change(self):
        self.arrives('DROP_NOT_ALLOWED', False, source=host.DENIED)
        self.arrives('IN', False)
        self.answers('OUT', False)
        self.arrives('IN', False)
        self.host.set_rules(host.PORT, host.RULES[1:])
        self.answers('DROP_NOT_ALLOWED', False)
        self.arrives('DROP_NOT_ALLOWED', False)
        self.host.set_rules(host.PORT, host.RULES)
        self.arrives('IN', False)
        self.host.set_rules(host.PORT, (), is_open=True)
        self.arrives('IN', False, source=host.DENIED)
        self.host.check_outcomes()
        self.host.check_flows()
        drops = self.host.datapath.drops()
        self.assertEqual({host.PORT}, {port for port, _ in drops})

    def test_probes_of_lb_nodes_are_let_in(self):
        for v6 in (False, True):
            node = (host.NODE, host.NODE6)[v6]
            self.host.set_rules(host.PORT, ())
            self.arrives('IN', v6, source=node, flags=SYN)
            self.answers('OUT', v6, destination=node, flags=SYN_ACK)

    def test_address_sets_name_remote_groups(self):
        self.host.sets[5] = ('203.0.113.0/24', '2001:db8:d::7/128')
        self.host.datapath.set_address_set(5, self.host.sets[5])
        self.host.set_rules(host.PORT, tuple(
            types.Rule(family, 'tcp', (8080, 8080), address_set=5)
            for family in (4, 6)))
        self.arrives('IN', False, source=host.DENIED)
        self.arrives('IN', True, source=host.DENIED6)
        self.arrives('DROP_NOT_ALLOWED', False)
        self.host.datapath.set_address_set(5, ['203.0.113.9/32'])
        self.host.sets[5] = ('203.0.113.9/32',)
        self.host.set_rules(host.PORT, (
            types.Rule(4, 'tcp', (8080, 8080), address_set=5),))
        self.arrives('DROP_NOT_ALLOWED', False, source=host.DENIED)

    def test_a_rule_for_everybody_is_for_one_family(self):
        for family in (4, 6):
            for number in (0, 5):
                self.host.sets[5] = ('0.0.0.0/0' if family == 4 else '::/0',)
                self.host.datapath.set_address_set(5, self.host.sets[5])
                self.host.set_rules(host.PORT, (types.Rule(
                    family, 'tcp', (8080, 8080), address_set=number),))
                for v6 in (False, True):
                    self.arrives('IN' if v6 == (family == 6)
                                 else 'DROP_NOT_ALLOWED', v6)
        # A set of the other family's addresses alone.
        self.host.set_rules(host.PORT, (types.Rule(
            4, 'tcp', (8080, 8080), address_set=5),))
        self.arrives('DROP_NOT_ALLOWED', False)

    def test_ports_and_protocols_of_rules(self):
        for ports, outcome in (((8080, 8080), 'IN'),
                               ((8081, 9000), 'DROP_NOT_ALLOWED'),
                               ((1, 8079), 'DROP_NOT_ALLOWED')):
            self.host.set_rules(host.PORT, (types.Rule(4, 'tcp', ports),))
            self.arrives(outcome, False)
            self.arrives('DROP_NOT_ALLOWED', False, protocol='udp')
            self.arrives('DROP_NOT_ALLOWED', True)


class TestFragments(host_case.HostCase):

    def fragments(self, packet, v6):
        if not v6:
            return inet.fragment(packet, 96)
        layer = packet.payload.copy()
        packet.remove_payload()
        return inet6.fragment6(
            packet / inet6.IPv6ExtHdrFragment(id=77) / layer, 160)

    def test_fragments_go_both_ways(self):
        for v6 in (False, True):
            payload = bytes(range(200))
            pieces = self.fragments(
                self.client_packet(v6, 'udp', payload=payload), v6)
            self.assertGreater(len(pieces), 1)
            for piece in pieces:
                self.assertEqual('IN', self.host.nic(host.encapsulated(
                    piece, host.key(1, 'udp', v6), inner_v6=v6))[2])
            pieces = self.fragments(
                self.vm_packet(v6, 'udp', payload=payload), v6)
            later = host.from_vm(pieces[1])
            self.assertEqual('PASS', self.host.tap_in(later)[2])
            for piece in pieces:
                self.assertEqual('OUT', self.host.tap_in(
                    host.from_vm(piece))[2])

    def test_what_is_in_a_remembered_place_now_sends_nothing_of_others(self):
        """The place has another tenant's entry, on another VM's port."""
        for v6 in (False, True):
            pieces = self.fragments(
                self.vm_packet(v6, 'udp', payload=bytes(200)), v6)
            self.arrives('IN', v6, protocol='udp')
            for _ in range(2):
                for piece in pieces[:2]:
                    self.assertEqual('OUT', self.host.tap_in(
                        host.from_vm(piece))[2])
            own = host.entry(1, 'udp', v6)
            others = host.entry(
                7, 'udp', v6, host.OTHER_PORT,
                vips=(host.OTHER_VIP, host.OTHER_VIP6), port=7070)
            self.host.datapath.delete_entry(own.key)
            del self.host.model.entries[own.key]
            self.host.datapath.set_entry(others)
            self.host.model.entries[others.key] = host.model_entry(others)
            self.assertEqual('PASS', self.host.tap_in(
                host.from_vm(pieces[1]))[2])

    def test_later_fragments_are_judged_each(self):
        pieces = self.fragments(self.client_packet(
            False, 'udp', source=host.DENIED, payload=bytes(200)), False)
        for piece in pieces:
            self.assertEqual(
                'DROP_NOT_ALLOWED', self.host.nic(host.encapsulated(
                    piece, host.key(1, 'udp', False), inner_v6=False))[2])
