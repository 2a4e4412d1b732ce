# SPDX-License-Identifier: Apache-2.0
"""Packets that name a second member, byte by byte."""

import struct

from octavia_xdp_provider.tests.models.packet_model import select
from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support import library
from octavia_xdp_provider.tests.packets.support.cases import Encapsulation
from octavia_xdp_provider.tests.packets.support.cases import Outcome
from octavia_xdp_provider.tests.packets.support.encapsulated import rebuilt

SYN, ACK = 'S', 'A'
FIRST = {4: '10.1.0.1', 6: 'fd00:1::1'}
SECOND = {4: '10.1.0.2', 6: 'fd00:1::2'}
HEADER = {4: 20, 6: 40}


def packed(address):
    return cases.compared.packed(address)


def shim(encapsulation, family, inner, alternative, length, port,
         keys=(0, 0)):
    """The bytes between outer IP header and packet: RFC 768, the draft of
    GUE and GitHub's private data; RFC 8926; RFC 8754. `keys` of Geneve: the
    member's and the alternative's."""
    protocol, ethertype = {4: (4, 0x0800), 6: (41, 0x86dd)}[inner]
    words = len(alternative) // 4
    if encapsulation == Encapsulation.SRV6:
        return bytes((protocol, 2, 4, 1, 0, 0, 0, 0)) + alternative
    if encapsulation == Encapsulation.GUE:
        behind = (bytes((1 + words, protocol, 0, 0)) +
                  struct.pack('!HBB', 0, 0, 1) + alternative)
        number = 6080
    else:
        behind = (struct.pack('!BBHI', 2 + words, 0, ethertype,
                              keys[0] << 8) +
                  struct.pack('!HBBI', 0xff4f, 1, 1 + words, keys[1] << 8) +
                  alternative)
        number = 6081
    return struct.pack('!4H', port, number, 8 + len(behind) + length,
                       0) + behind


class TestSecondChance(cases.PacketCase):
    """One member, then two: a part of the slots has another owner."""

    def changed(self, encapsulation=Encapsulation.GUE, outer=4, vip=None,
                second=None, first=None, **fields):
        members = [first or state.Member(packed(FIRST[outer]))]
        service = self.service(vip or cases.VIP4, members=members,
                               encapsulation=encapsulation,
                               second_chance=True, **fields)
        members = [first or state.Member(packed(FIRST[outer])),
                   second or state.Member(packed(SECOND[outer]))]
        self.compared.set_service(service, members)
        self.assertTrue(service.changed)
        return service

    def run_frame(self, frame):
        """Again, where a unit of time ended meanwhile."""
        while True:
            for result in self.compared.run([frame]):
                return result

    def frames(self, service, flags, length=33):
        """(frame, its flow's hash) of some flows."""
        make = cases.ip4 if len(service.vip) == 4 else cases.ip6
        for port in range(1024, 1056):
            inner = rebuilt(make() / cases.tcp(sport=port, flags=flags) /
                                 cases.payload(length))
            frame = bytes(cases.link() / inner)
            value = select.flow_hash(
                frame[26:30] if len(service.vip) == 4 else frame[22:38],
                service.vip, struct.pack('!HH', port, cases.PORT), state.TCP)
            yield frame, value

    def each(self):
        for outer, encapsulation in (
                (4, Encapsulation.GUE), (6, Encapsulation.GUE),
                (4, Encapsulation.GENEVE), (6, Encapsulation.GENEVE),
                (6, Encapsulation.SRV6)):
            for vip in (cases.VIP4, cases.VIP6):
                yield self.changed(encapsulation, outer, vip), outer

    def test_what_opens_nothing_names_the_other_member(self):
        for service, outer in self.each():
            inner_family = 4 if len(service.vip) == 4 else 6
            named = 0
            for frame, value in self.frames(service, ACK):
                result = self.run_frame(frame)
                slot = select.flow_slot(value, len(service.now))
                header = 14 + HEADER[outer]
                if slot not in service.changed:
                    self.assertEqual(frame[14:],
                                     result.frame[-len(frame) + 14:])
                    continue
                named += 1
                port = 0xc000 | value & 0x3fff
                # unknown flows are older than the change
                self.assertEqual(FIRST[outer], self._address(
                    service.members[result.member].address))
                expected = shim(
                    service.encapsulation, outer, inner_family,
                    packed(SECOND[outer]), len(frame) - 14, port)
                self.assertEqual(expected + frame[14:],
                                 result.frame[header:])
                self._check_outer(result.frame, outer,
                                  service.encapsulation)
            self.assertLess(0, named)
            self.assertLess(named, 32)
            self.compared.delete_service(service)

    def _address(self, address):
        return {packed(text): text for text in (
            *FIRST.values(), *SECOND.values())}[address]

    def _check_outer(self, frame, outer, encapsulation):
        if outer == 4:
            self.assertEqual(len(frame) - 14,
                             int.from_bytes(frame[16:18], 'big'))
            total = sum(struct.unpack('!10H', frame[14:34]))
            self.assertEqual(0xffff, (total & 0xffff) + (total >> 16))
            self.assertEqual(17, frame[23])
        else:
            self.assertEqual(len(frame) - 54,
                             int.from_bytes(frame[18:20], 'big'))
            self.assertEqual(
                43 if encapsulation == Encapsulation.SRV6 else 17, frame[20])

    def test_what_opens_a_flow_goes_to_the_owner_and_names_nobody(self):
        service = self.changed()
        for frame, value in self.frames(service, SYN):
            result = self.run_frame(frame)
            slot = select.flow_slot(value, len(service.now))
            self.assertEqual(service.now[slot], result.member)
            self.assertEqual(len(frame) + 28, len(result.frame))

    def test_closed_slots_name_the_owner_before(self):
        """The owner is the likelier one then."""
        service = self.changed()
        # no packet was forwarded: they close in two steps
        self.close_slots()
        self.assertFalse(service.open)
        self.assertTrue(service.changed)
        named = 0
        for frame, value in self.frames(service, ACK):
            result = self.run_frame(frame)
            slot = select.flow_slot(value, len(service.now))
            self.assertEqual(service.now[slot], result.member)
            named += slot in service.changed
            self.assertEqual(
                len(frame) + 28 + 12 * (slot in service.changed),
                len(result.frame))
        self.assertLess(0, named)

    def close_slots(self):
        clock = self.compared.maps['config']
        for _ in range(2):
            self.compared.datapath.tick()
            stored = bytearray(clock.read(bytes(4)))
            ticked, = struct.unpack_from('=Q', stored, TICKED)
            struct.pack_into('=Q', stored, TICKED, ticked - 1000)
            clock.write(bytes(4), bytes(stored))
        self.compared.datapath.tick()
        self.compared.refresh()

    def test_a_slot_that_gets_its_owner_back_names_the_other_one(self):
        """And closes: most flows began with the owner."""
        service = self.changed()
        opened = set(service.open)
        members = [state.Member(packed(FIRST[4])),
                   state.Member(packed(SECOND[4]), weight=0)]
        self.compared.set_service(service, members)
        self.assertFalse(service.open)
        self.assertEqual(opened, service.changed)
        named = 0
        for frame, value in self.frames(service, ACK):
            result = self.run_frame(frame)
            self.assertEqual(packed(FIRST[4]),
                             service.members[result.member].address)
            slot = select.flow_slot(value, len(service.now))
            named += slot in opened
            self.assertEqual(slot in opened,
                             packed(SECOND[4]) in result.frame)
        self.assertLess(0, named)

    def test_who_is_down_is_not_named(self):
        service = self.changed()
        members = [state.Member(packed(FIRST[4]), healthy=False),
                   state.Member(packed(SECOND[4]))]
        self.compared.set_service(service, members)
        for frame, _value in self.frames(service, ACK):
            result = self.run_frame(frame)
            self.assertEqual(packed(SECOND[4]),
                             service.members[result.member].address)
            self.assertEqual(len(frame) + 28, len(result.frame))

    def test_services_that_cannot_have_one_are_refused(self):
        for fields in ({'encapsulation': Encapsulation.IPIP},
                       {'encapsulation': Encapsulation.GRE},
                       {'encapsulation': Encapsulation.DSCP, 'dscp': 5},
                       {'encapsulation': Encapsulation.GUE,
                        'protocol': state.UDP},
                       {'encapsulation': Encapsulation.GUE,
                        'protocol': state.SCTP},
                       {'encapsulation': Encapsulation.GUE,
                        'by_source': True}):
            with self.assertRaisesRegex(library.Refused, 'second chance'):
                self.service(second_chance=True, **fields)

    def test_errors_name_the_other_member_as_well(self):
        service = self.changed()
        for frame, value in self.frames(service, ACK):
            slot = select.flow_slot(value, len(service.now))
            quote = rebuilt(
                cases.inet.IP(src=cases.VIP4, dst=cases.CLIENT4) /
                cases.inet.TCP(sport=cases.PORT, dport=int.from_bytes(
                    frame[34:36], 'big')))
            error = bytes(cases.link() / rebuilt(
                cases.inet.IP(src='203.0.113.9', dst=cases.VIP4) /
                cases.inet.ICMP(type=3, code=4) / bytes(quote)))
            result = self.run_frame(error)
            self.assertEqual(
                len(error) + 28 + 12 * (slot in service.changed),
                len(result.frame))

    def test_the_path_is_reckoned_with_an_alternative_always(self):
        """So that its MTU is one, whether the slot has changed or not."""
        service = self.changed()
        for length, outcome in ((cases.MTU - 40 - 28 - 12, Outcome.FORWARDED),
                                (cases.MTU - 40 - 28 - 11,
                                 Outcome.DROP_TOO_BIG)):
            for frame, _value in self.frames(service, ACK, length=length):
                result = self.run_frame(frame[:20] + b'\x40' + frame[21:])
                self.assertEqual(outcome, result.outcome)

    def in_tunnel(self, address, encapsulation, host, key, port=0,
                  takes=True):
        return state.Member(packed(address), port=port, tunnel=state.Tunnel(
            packed(host), encapsulation, key, True, takes))

    def test_members_in_tunnels_are_named_by_address_and_key(self):
        """Both members may be on one host or on two, at any address."""
        keys = 0x123456, 0xfedcba
        for outer, encapsulation, hosts in (
                (4, Encapsulation.GENEVE, ('10.9.0.1', '10.9.0.2')),
                (4, Encapsulation.GENEVE, ('10.9.0.1', '10.9.0.1')),
                (6, Encapsulation.GENEVE, ('fd00:9::1', 'fd00:9::2')),
                (6, Encapsulation.SRV6, ('fd00:9:1::', 'fd00:9:2::')),
                (6, Encapsulation.SRV6, ('fd00:9:1::', 'fd00:9:1::'))):
            members = [self.in_tunnel('192.168.7.5', encapsulation, hosts[n],
                                      keys[n], port)
                       for n, port in enumerate((8080, 9090))]
            service = self.changed(Encapsulation.GUE, first=members[0],
                                   second=members[1])
            named = 0
            for frame, value in self.frames(service, ACK):
                result = self.run_frame(frame)
                header = 14 + HEADER[outer]
                destinations = [packed(host) for host in hosts]
                if encapsulation == Encapsulation.SRV6:
                    destinations = [
                        destination[:12] + keys[n].to_bytes(4, 'big')
                        for n, destination in enumerate(destinations)]
                self.assertIn(destinations[0], result.frame[14:header])
                if select.flow_slot(value, len(service.now)) not in (
                        service.changed):
                    self.assertEqual(frame[14:],
                                     result.frame[-len(frame) + 14:])
                    continue
                named += 1
                expected = shim(
                    encapsulation, outer, 4, destinations[1],
                    len(frame) - 14, 0xc000 | value & 0x3fff, keys)
                self.assertEqual(expected + frame[14:],
                                 result.frame[header:])
                self._check_outer(result.frame, outer, encapsulation)
            self.assertLess(0, named)
            self.compared.delete_service(service)

    def test_tunnels_whose_end_takes_none_name_nobody(self):
        for takes in ((False, False), (True, False), (False, True)):
            members = [self.in_tunnel('192.168.7.5', Encapsulation.GENEVE,
                                      '10.9.0.1', n + 1, 8080 + n, takes_flows)
                       for n, takes_flows in enumerate(takes)]
            service = self.changed(first=members[0], second=members[1])
            for frame, _value in self.frames(service, ACK):
                result = self.run_frame(frame)
                self.assertEqual(len(frame) + 36, len(result.frame))
            self.compared.delete_service(service)

    def test_a_tunnel_that_carries_none_is_refused(self):
        for encapsulation in (Encapsulation.IPIP, Encapsulation.GRE):
            member = self.in_tunnel('192.168.7.5', encapsulation, '10.9.0.1',
                                    0)
            with self.assertRaisesRegex(library.Refused, 'alternatives in a '
                                        'tunnel'):
                self.service(cases.VIP4, members=[member])

    def test_members_of_another_form_are_not_named(self):
        """The second member gets the packet unchanged."""
        tunnel = state.Tunnel(packed('10.9.0.1'), Encapsulation.GENEVE, 7,
                              True, True)
        for second in (state.Member(packed(SECOND[6])),
                       state.Member(packed(SECOND[4]), tunnel=tunnel),
                       state.Member(packed(SECOND[4]), port=8080)):
            service = self.changed(second=second)
            for frame, _value in self.frames(service, ACK):
                result = self.run_frame(frame)
                self.assertEqual(len(frame) + 28, len(result.frame))
            self.compared.delete_service(service)


# Offset in struct node_config.
TICKED = 160
