# SPDX-License-Identifier: Apache-2.0

import random

from scapy import utils

from octavia_xdp_provider.tests.models.packet_model import checksum
from octavia_xdp_provider.tests.unit import base


def with_field(message, at, field):
    return message[:at] + field + message[at + 2:]


class TestChecksum(base.TestCase):

    def test_sums_are_those_of_scapy(self):
        rng = random.Random(1)
        for length in range(1, 80):
            data = rng.randbytes(length)
            self.assertEqual(utils.checksum(data), checksum.checksum(data))

    def test_zeroes_have_the_checksum_of_all_ones(self):
        for length in (0, 1, 2, 33):
            self.assertEqual(0xffff, checksum.checksum(bytes(length)))
        self.assertEqual(0, checksum.checksum(b'\xff\xff\0\0'))


class TestRefreshed(base.TestCase):

    def message(self, rng):
        return rng.randbytes(rng.randrange(6, 60))

    def test_right_ones_are_those_of_the_whole_message(self):
        rng = random.Random(2)
        for _ in range(500):
            before = with_field(self.message(rng), 2, b'\0\0')
            before = with_field(before, 2, checksum.checksum(
                before).to_bytes(2, 'big'))
            after = rng.randbytes(2) + before[2:]
            field = checksum.refreshed(before, after, 2)
            self.assertEqual(
                checksum.checksum(with_field(after, 2, b'\0\0')),
                int.from_bytes(field, 'big'))

    def test_message_of_zeroes_gets_all_ones(self):
        before = b'\x08\0\xf7\xff' + bytes(4)
        self.assertEqual(b'\xff\xff',
                         checksum.refreshed(before, bytes(8), 2))

    def test_wrong_checksum_stays_wrong_by_the_same_amount(self):
        rng = random.Random(3)
        for _ in range(500):
            before = self.message(rng)
            after = rng.randbytes(2) + before[2:]
            field = checksum.refreshed(before, after, 2)
            self.assertEqual(
                checksum.words(before) % 0xffff,
                checksum.words(with_field(after, 2, field)) % 0xffff)

    def test_unchanged_message_keeps_its_checksum(self):
        rng = random.Random(4)
        for _ in range(200):
            before = self.message(rng)
            if before[2:4] != b'\xff\xff':
                self.assertEqual(before[2:4],
                                 checksum.refreshed(before, before, 2))
