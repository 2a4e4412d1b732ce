# SPDX-License-Identifier: Apache-2.0
"""Nodes that saw other things, or in another order, agree: needs root."""

import os
import random

from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.functional.support import private_node as base
from octavia_xdp_provider.tests.models import maglev_model

KEYS = (base.HTTP, base.DNS, base.HTTP_V6)
ADDRESSES = [f'10.1.0.{number}' for number in range(1, 13)]
ROUNDS = 20
SLOTS = 251


class TestTwoNodes(base.PrivateState):

    def setUp(self):
        super().setUp()
        self.nodes = [self.open(
            pin_directory=os.path.join(self.bpffs, name),
            lock_file=f'{self.lock}-{name}') for name in ('one', 'two')]

    def members(self, source):
        return [datapath.Member(address, weight=source.randint(0, 4),
                                check=1 + ADDRESSES.index(address))
                for address in source.sample(
                    ADDRESSES, source.randint(0, len(ADDRESSES)))]

    def set(self, node, key, members):
        node.set_service(key, members, datapath.Settings(slots=SLOTS))

    def live(self, node, source, members, up):
        """A history, and what holds in the end in an order of its own."""
        for _ in range(source.randint(0, 15)):
            if source.random() < 0.5:
                self.set(node, source.choice(KEYS), self.members(source))
            else:
                node.apply_health([(source.randint(1, len(ADDRESSES)),
                                    source.random() < 0.5)])
            if source.random() < 0.2:
                node.delete_services([source.choice(KEYS)])
        for key in source.sample(KEYS, len(KEYS)):
            wanted = members[key]
            self.set(node, key, source.sample(wanted, len(wanted)))
        for check in source.sample(sorted(up), len(up)):
            node.apply_health([(check, up[check])])

    def test_nodes_of_other_histories_have_equal_tables(self):
        source = random.Random(2016)
        for number in range(ROUNDS):
            members = {key: self.members(source) for key in KEYS}
            up = {1 + check: source.random() < 0.8
                  for check in range(len(ADDRESSES))}
            for node in self.nodes:
                self.live(node, source, members, up)
            for key in KEYS:
                wanted = maglev_model.populate(
                    {one.address: one.weight for one in members[key]
                     if up[one.check]}, SLOTS)
                for node in self.nodes:
                    self.assertEqual(wanted, node.table(key), (number, key))
        for node in self.nodes:
            self.assertEqual([], node.faults())
