# SPDX-License-Identifier: Apache-2.0
"""Checksums that come out as 0 or 0xffff.

The sum of ones' complement has two zeroes. Each test sends a packet, sees by
how much the checksum that leaves is not 0, and sends it again with that much
more in a word that nothing decides by.
"""

import functools
import random

from scapy import utils
from scapy.packet import Raw

from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.packets.support import cases
from octavia_xdp_provider.tests.packets.support.cases import Outcome

VIPS = {4: cases.VIP4, 6: cases.VIP6}
HEADER = {4: 20, 6: 40}
ROUNDS = 12
CHECKSUM = {state.TCP: 16, state.UDP: 6, state.ICMP: 2, state.ICMPV6: 2}


def added(first: int, other: int) -> int:
    total = first + other
    return (total & 0xffff) + (total >> 16)


def is_right(packet: bytes, family: int) -> bool:
    """Whether a receiver takes an IP packet without options, and what it
    carries: the sum with the checksum is 0xffff."""
    header, message = packet[:HEADER[family]], packet[HEADER[family]:]
    protocol = header[9] if family == 4 else header[6]
    if family == 4 and utils.checksum(header):
        return False
    pseudo = b''
    if protocol != state.ICMP:
        addresses = header[12:20] if family == 4 else header[8:40]
        pseudo = addresses + bytes((0, protocol)) + len(message).to_bytes(
            2, 'big')
    # scapy's is 0 of a right message, and 0xffff of nothing but zeroes
    return utils.checksum(pseudo + message) == 0


class ChecksumCase(cases.PacketCase):

    def setUp(self):
        super().setUp()
        self.use(cases.plain_node(echo=True, clamp_mss=True,
                                  icmp_rate=1000000))
        self.rng = random.Random(7)

    def leaves(self, packet, outcome: Outcome = Outcome.FORWARDED) -> bytes:
        """The packet that leaves, without its link header."""
        result = self.run_one(cases.link() / packet)
        self.assertEqual(outcome, result.outcome)
        return result.frame[14:]

    def head(self, family: int, **fields):
        """Addresses at random: client and, in IPv4, the id."""
        if family == 4:
            return cases.ip4(src=f'198.51.100.{self.rng.randrange(1, 255)}',
                             flags='DF', **fields)
        return cases.ip6(src=f'2001:db8:c::{self.rng.randrange(1, 9999):x}',
                         **fields)

    def data(self) -> bytes:
        """Zeroes or noise, of odd and even length."""
        length = self.rng.randrange(40)
        return self.rng.choice((bytes, self.rng.randbytes))(length)

    def zero(self, make, at: int, result: int = 0,
             outcome: Outcome = Outcome.FORWARDED) -> bytes:
        """Return the forwarded packet of make(word), for the word with which
        the checksum at offset `at` of that packet is 0."""
        word = self.rng.randrange(1, 0x10000)
        seen = self.leaves(make(word), outcome)
        by = int.from_bytes(seen[at:at + 2], 'big')
        seen = self.leaves(make(added(word, by)), outcome)
        self.assertEqual(result, int.from_bytes(seen[at:at + 2], 'big'))
        return seen

    def zeroes(self, family: int, make, at: int, result: int = 0,
               outcome: Outcome = Outcome.FORWARDED, outer: int = 0):
        """The same for make(header, data, word) with other addresses and data
        each time; behind `outer` bytes the packet has to be right."""
        for _ in range(ROUNDS):
            head, data = self.head(family), Raw(self.data())
            seen = self.zero(functools.partial(make, head, data), outer + at,
                             result, outcome)
            self.assertTrue(is_right(seen[outer:], family), seen.hex())
