# SPDX-License-Identifier: Apache-2.0
"""The library's tables against an independent model in Python."""

import collections
import ipaddress
import os
import random
import unittest

from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests import instrumented
from octavia_xdp_provider.tests.models import maglev_model

PRIMES = (2, 3, 5, 7, 11, 53, 251, 509, 1009, 2039, 4093, 13313)


def load_library():
    try:
        return instrumented.Library()
    except OSError as error:
        if os.environ.get(datapath.LIBRARY_VARIABLE):
            raise
        raise unittest.SkipTest(
            f'{instrumented.test_library_path()} is not built '
            f'(make -C datapath): {error}') from error


def random_address(source):
    if source.random() < 0.2:
        return str(ipaddress.IPv6Address(source.getrandbits(128)))
    return str(ipaddress.IPv4Address(source.getrandbits(32)))


def random_members(source, count, greatest):
    return {random_address(source): source.randint(0, greatest)
            for _ in range(count)}


class TestMaglev(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.library = load_library()

    def assert_equal_tables(self, members, slots):
        self.assertEqual(maglev_model.populate(members, slots),
                         self.library.maglev(members, slots),
                         f'{slots} slots: {members}')

    def test_tables_of_random_members_equal_the_model(self):
        source = random.Random(2016)
        for _ in range(400):
            slots = source.choice(PRIMES[:9])
            greatest = source.choice((1, 2, 10, 256, 65535))
            members = random_members(
                source, source.randint(0, 40), greatest)
            self.assert_equal_tables(members, slots)

    def test_tables_of_members_with_ports_equal_the_model(self):
        source = random.Random(8080)
        for _ in range(100):
            members = random_members(source, source.randint(1, 10), 3)
            members.update({
                f'[{address}]:{source.randint(1, 65535)}':
                    source.randint(0, 10)
                for address in list(members) for _ in range(3)})
            self.assert_equal_tables(members, source.choice(PRIMES[:9]))

    def test_usual_sizes_equal_the_model(self):
        source = random.Random(13313)
        for count in (1, 2, 10, 256):
            members = random_members(source, count, 256)
            self.assert_equal_tables(members, 13313)
            self.assert_equal_tables(dict.fromkeys(members, 1), 13313)

    def test_table_of_65537_slots_equals_the_model(self):
        members = random_members(random.Random(65537), 100, 100)
        self.assert_equal_tables(members, 65537)

    def test_table_without_weights_is_empty(self):
        self.assertEqual([None] * 7, self.library.maglev({}, 7))
        self.assertEqual([None] * 7,
                         self.library.maglev({'10.0.0.1': 0}, 7))

    def test_sizes_that_are_not_prime_are_refused(self):
        for slots in (1, 4, 1000, 13312):
            with self.assertRaises(datapath.DatapathError):
                self.library.maglev({'10.0.0.1': 1}, slots)

    def test_shares_follow_weights(self):
        weights = {f'10.0.0.{weight}': weight for weight in (1, 2, 4, 8)}
        shares = collections.Counter(self.library.maglev(weights, 13313))
        for address, weight in weights.items():
            expected = 13313 * weight / 15
            self.assertLess(abs(shares[address] - expected), 8)

    def test_balance_is_that_of_the_paper(self):
        # Section 3.4: more than 100 slots a member, "at most a 1 % difference
        # in hash space".
        members = {f'10.0.{number >> 8}.{number & 255}': 1
                   for number in range(655)}
        shares = collections.Counter(self.library.maglev(members, 65537))
        self.assertEqual(655, len(shares))
        self.assertLessEqual(
            max(shares.values()) - min(shares.values()), 65537 / 655 / 100)

    def test_disruption_is_that_of_the_paper(self):
        # Figure 12, 1,000 members and 65,537 slots: with a few members down
        # at once a few percent of the slots of all others change.
        members = {f'10.0.{number >> 8}.{number & 255}': 1
                   for number in range(1000)}
        before = self.library.maglev(members, 65537)
        source = random.Random(12)
        for failures, bound in ((1, 0.01), (5, 0.03), (20, 0.05)):
            down = set(source.sample(sorted(members), failures))
            after = self.library.maglev(
                {member: int(member not in down) for member in members}, 65537)
            needless = sum(
                old != new for old, new in zip(before, after, strict=True)
                if old not in down)
            self.assertNotEqual([], down.intersection(before))
            self.assertEqual(set(), down.intersection(after))
            self.assertLess(needless / 65537, bound, failures)
