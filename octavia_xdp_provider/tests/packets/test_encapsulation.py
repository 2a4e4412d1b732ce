# SPDX-License-Identifier: Apache-2.0
"""The bytes that leave, for every encapsulation and family."""

import itertools

from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import l2
from scapy.packet import Raw

from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support import environment
from octavia_xdp_provider.tests.packets.support.cases import Encapsulation
from octavia_xdp_provider.tests.packets.support.cases import outer4
from octavia_xdp_provider.tests.packets.support.cases import outer6
from octavia_xdp_provider.tests.packets.support.encapsulated import carried
from octavia_xdp_provider.tests.packets.support.encapsulated import entropy_of
from octavia_xdp_provider.tests.packets.support.encapsulated import INNER
from octavia_xdp_provider.tests.packets.support.encapsulated import rebuilt

TRANSPORT = {
    state.TCP: lambda: cases.tcp() / cases.payload(33),
    state.UDP: lambda: cases.udp() / cases.payload(34),
    state.SCTP: cases.sctp_init}

CARRIED = (Encapsulation.IPIP, Encapsulation.GUE, Encapsulation.GRE,
           Encapsulation.GENEVE)


class TestTunnels(cases.PacketCase):

    def test_packets_leave_behind_the_headers_of_each_encapsulation(self):
        for encapsulation, make, protocol, (member, outer) in (
                itertools.product(CARRIED, INNER, TRANSPORT, (
                    (cases.MEMBER4, outer4), (cases.MEMBER6, outer6)))):
            inner = rebuilt(make() / TRANSPORT[protocol]())
            with self.subTest(encapsulation.name, inner=inner.summary(),
                              member=member):
                service = self.service(inner.dst, protocol, [member],
                                       encapsulation=encapsulation)
                self.forwarded(cases.link() / inner, carried(
                    inner, protocol, encapsulation, outer))
                self.compared.delete_service(service)

    def test_srv6_addresses_the_members_segment(self):
        """H.Encaps.Red with one SID: IPv6 in IPv6, no routing header."""
        for vip, make in ((cases.VIP4, cases.ip4), (cases.VIP6, cases.ip6)):
            inner = rebuilt(make() / cases.tcp())
            for function, sid in ((0, 'fd00:1::1'), (0xd4, 'fd00:1::d4')):
                service = self.service(
                    vip, state.TCP, [cases.MEMBER6],
                    encapsulation=Encapsulation.SRV6, sid_function=function)
                flow = entropy_of(inner, state.TCP) & 0xfffff
                self.forwarded(cases.link() / inner,
                               outer6(inner, sid, flow=flow) / inner)
                self.compared.delete_service(service)

    def test_outer_header_copies_dscp_and_ecn(self):
        for vip, make, field in ((cases.VIP4, cases.ip4, 'tos'),
                                 (cases.VIP6, cases.ip6, 'tc')):
            service = self.service(vip, members=[cases.MEMBER4])
            for tos in (0, 1, 2, 3, 0xb8, 0xff):
                inner = rebuilt(make(**{field: tos}) / cases.tcp())
                self.forwarded(cases.link() / inner, outer4(inner) / inner)
            self.compared.set_service(
                service, [state.Member(cases.compared.packed(cases.MEMBER6))])
            flow = entropy_of(inner, state.TCP) & 0xfffff
            self.forwarded(cases.link() / inner,
                           outer6(inner, flow=flow) / inner)

    def test_outer_ipv4_copies_df_and_id(self):
        """DF as the client had it; id as well, so that fragments of the
        outer packet can be distinguished."""
        self.service()
        for flags in ('', 'DF'):
            inner = rebuilt(cases.ip4(flags=flags, id=0xbeef) / cases.tcp())
            expected = outer4(inner) / inner
            self.assertEqual(flags, str(expected[inet.IP].flags))
            self.forwarded(cases.link() / inner, expected)

    def test_padding_leaves_with_the_packet(self):
        self.service()
        inner = rebuilt(cases.ip4() / cases.tcp())
        padding = Raw(b'\xaa' * 6)
        self.forwarded(
            cases.link() / inner / padding,
            outer4(inner, len=20 + len(inner)) / inner / padding)

    def test_inner_ttl_stays_and_the_outer_one_is_64(self):
        self.service()
        for ttl in (1, 255):
            inner = rebuilt(cases.ip4(ttl=ttl) / cases.tcp())
            self.forwarded(cases.link() / inner, outer4(inner) / inner)

    def test_wrong_checksums_are_the_members_to_judge(self):
        self.service()
        inner = rebuilt(cases.ip4() / cases.tcp(chksum=0xdead))
        self.forwarded(cases.link() / inner, outer4(inner) / inner)


class TestOuterSource(cases.PacketCase):

    def test_outer_source_ends_with_bits_of_the_flows_hash(self):
        for bits4, bits6 in ((1, 1), (8, 16), (16, 32)):
            self.use(cases.plain_node(entropy={4: bits4, 6: bits6}))
            self.service(members=[cases.MEMBER4])
            self.service(cases.VIP6, members=[cases.MEMBER6])
            for port in (1, 2, 50000):
                inner = rebuilt(cases.ip4() / cases.tcp(sport=port))
                low = entropy_of(inner, state.TCP) & (1 << bits4) - 1
                base = 0x0a000001 & ~((1 << bits4) - 1)
                source = cases.compared.text((base | low).to_bytes(4, 'big'))
                self.forwarded(cases.link() / inner,
                               outer4(inner, src=source) / inner)
                inner = rebuilt(cases.ip6() / cases.tcp(sport=port))
                entropy = entropy_of(inner, state.TCP)
                low = entropy & (1 << bits6) - 1
                base = 1 & ~((1 << bits6) - 1)
                source = cases.compared.text(
                    cases.compared.packed('fd00::')[:12] +
                    (base | low).to_bytes(4, 'big'))
                self.forwarded(
                    cases.link() / inner,
                    outer6(inner, src=source, flow=entropy & 0xfffff) /
                    inner)


class TestDscp(cases.PacketCase):
    """No outer header: destination and DSCP change, checksums follow."""

    DSCP = 11

    def prepare(self):
        for vip in (cases.VIP4, cases.VIP6):
            for protocol in TRANSPORT:
                self.service(vip, protocol, dscp=self.DSCP,
                             encapsulation=Encapsulation.DSCP)

    def expected(self, inner):
        """Scapy computes the checksums itself."""
        new = inner.copy()
        if inner.version == 4:
            new.dst, del_fields = cases.MEMBER4, ('chksum',)
            new.tos = self.DSCP << 2 | inner.tos & 3
            gateway = cases.GATEWAY4_MAC
        else:
            new.dst, del_fields = cases.MEMBER6, ()
            new.tc = self.DSCP << 2 | inner.tc & 3
            gateway = cases.GATEWAY6_MAC
        for field in del_fields:
            delattr(new, field)
        for layer in (inet.TCP, inet.UDP):
            if layer in new and not (layer is inet.UDP and
                                     new[layer].chksum == 0):
                del new[layer].chksum
        return l2.Ether(dst=gateway, src=cases.NODE_MAC) / new

    def test_rewriting_corrects_checksums_of_each_protocol(self):
        self.prepare()
        for make, field in ((cases.ip4, 'tos'), (cases.ip6, 'tc')):
            for transport in TRANSPORT.values():
                for tos in (0, 2, 0xfd):
                    inner = rebuilt(make(**{field: tos}) / transport())
                    with self.subTest(inner=inner.summary(), tos=tos):
                        self.forwarded(cases.link() / inner,
                                       self.expected(inner))

    def test_rewritten_udp_without_checksum_stays_without(self):
        self.prepare()
        for make in INNER:
            inner = rebuilt(make() / cases.udp(chksum=0))
            self.assertEqual(0, inner[inet.UDP].chksum)
            self.forwarded(cases.link() / inner, self.expected(inner))

    def test_rewriting_keeps_options_and_extension_headers(self):
        self.prepare()
        inner = rebuilt(cases.ip4(options=[inet.IPOption(b'\x94\x04\0\0')]) /
                        cases.tcp())
        self.forwarded(cases.link() / inner, self.expected(inner))
        inner = rebuilt(cases.ip6() / inet6.IPv6ExtHdrDestOpt() /
                        cases.tcp())
        self.forwarded(cases.link() / inner, self.expected(inner))


class TestLink(cases.PacketCase):

    def test_vlan_tags_of_the_client_are_removed(self):
        self.service()
        self.service(cases.VIP6)
        for vlans in ((5,), (5, 6)):
            for make, outer in ((cases.ip4, outer4), (cases.ip6, outer6)):
                inner = rebuilt(make() / cases.tcp())
                fields = {}
                if outer is outer6:
                    fields['flow'] = entropy_of(inner, state.TCP) & 0xfffff
                self.forwarded(cases.link(*vlans) / inner,
                               outer(inner, **fields) / inner)

    def test_service_tag_of_the_client_is_removed(self):
        """802.1ad outside of 802.1Q."""
        self.service()
        inner = rebuilt(cases.ip4() / cases.tcp())
        self.forwarded(
            l2.Ether(dst=cases.NODE_MAC, src=cases.ROUTER_MAC) /
            l2.Dot1AD(vlan=5) / l2.Dot1Q(vlan=6) / inner,
            outer4(inner) / inner)

    def test_frames_with_three_tags_pass(self):
        self.service()
        self.passed(cases.link(1, 2, 3) / cases.ip4() / cases.tcp())

    def test_vlan_tags_of_the_uplink_are_added(self):
        inner = rebuilt(cases.ip4() / cases.tcp())
        outer = outer4(inner)[inet.IP]
        for vlans in ((7,), (0x6007, 8)):
            self.use(cases.plain_node(
                uplinks=[cases.uplink(vlans=vlans)]))
            self.service()
            expected = l2.Ether(dst=cases.GATEWAY4_MAC, src=cases.NODE_MAC)
            kinds = [l2.Dot1Q] if len(vlans) == 1 else [l2.Dot1AD, l2.Dot1Q]
            for kind, tag in zip(kinds, vlans, strict=True):
                expected /= kind(prio=tag >> 13, vlan=tag & 0xfff)
            for tags in ((), (3,), (3, 4)):
                self.forwarded(cases.link(*tags) / inner,
                               expected / outer / inner)

    def test_packet_is_redirected_to_another_device(self):
        other = environment.enter()['uplink1']
        self.use(cases.plain_node(uplinks=[cases.uplink(ifindex=other)]))
        self.service()
        inner = rebuilt(cases.ip4() / cases.tcp())
        self.check(cases.link() / inner, cases.Action.REDIRECT,
                   cases.Outcome.FORWARDED, outer4(inner) / inner)

    def test_flows_keep_their_uplink_and_use_all(self):
        """Each flow has one, all of them are used."""
        devices = environment.enter()
        macs = {name: bytes((2, 0, 0, 0, 1, index))
                for index, name in enumerate(('lo', 'uplink1', 'uplink2'))}
        self.use(cases.plain_node(uplinks=[
            cases.uplink(ifindex=devices[name], own_mac=own)
            for name, own in macs.items()]))
        self.service()
        seen = {}
        for port in range(64):
            frame = cases.link() / cases.ip4() / cases.tcp(sport=port + 1)
            first = self.run_one(frame)
            second = self.run_one(frame)
            self.assertEqual(first.frame, second.frame)
            action = (cases.Action.TX if first.frame[6:12] == macs['lo']
                      else cases.Action.REDIRECT)
            self.assertEqual(action, first.action)
            seen[first.frame[6:12]] = True
        self.assertEqual(set(macs.values()), set(seen))

    def test_packets_are_dropped_without_next_hop_of_their_family(self):
        self.use(cases.plain_node(uplinks=[cases.uplink(
            gateway={4: cases.mac(cases.GATEWAY4_MAC), 6: None})]))
        self.service(members=[cases.MEMBER4])
        self.service(cases.VIP6, members=[cases.MEMBER6])
        self.forwarded(cases.link() / cases.ip4() / cases.tcp())
        self.dropped(cases.link() / cases.ip6() / cases.tcp(),
                     cases.Outcome.DROP_NO_NEXT_HOP)

    def test_packets_are_dropped_without_outer_source(self):
        self.use(cases.plain_node(source={4: None, 6: None}))
        for vip, make in ((cases.VIP4, cases.ip4), (cases.VIP6, cases.ip6)):
            self.service(vip)
            self.dropped(cases.link() / make() / cases.tcp(),
                         cases.Outcome.DROP_NO_NEXT_HOP)
