# SPDX-License-Identifier: Apache-2.0
"""The protocol between nodes and controllers, over a network that loses,
repeats and delays messages, against a model of who has what."""

import random

from octavia_xdp_provider.contracts import changes
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller import node_api
from octavia_xdp_provider.controller import pages
from octavia_xdp_provider.process.agents import fetching
from octavia_xdp_provider.process.agents import reports
from octavia_xdp_provider.process.agents import wanted
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import base as store_base
from octavia_xdp_provider.tests.unit.controller import network as networks

HOST = 'node'
STATES = ('up', 'down', 'unknown')
RUNS, STEPS = 6, 60


class Node:
    """An agent's part of the protocol, without a datapath."""

    def __init__(self, source, network, directory, epochs):
        self._random = source
        self._network = network
        self._directory = directory
        self._epochs = epochs
        self.start()

    def start(self):
        self.fetcher = fetching.Fetcher(
            self._network, HOST, wanted.Cache(self._directory))
        self.reporter = reports.Reporter(next(self._epochs))
        self.facts = reports.Facts()
        self.members = {}

    def fetch(self):
        self._follow(self.fetcher.fetch())

    def receive(self, since, page):
        """Handle a page that was sent with a notification."""
        mentioned = self.fetcher.receive(since, page)
        self._follow(self.fetcher.fetch() if mentioned is None
                     else mentioned)

    def _follow(self, mentioned):
        self.reporter.again(mentioned)
        state = self.fetcher.wanted
        self.facts.as_of = state.as_of
        self.facts.held = {
            key: {'generation': generation, 'error': None,
                  'announced': True, 'members': self.members.get(
                      key, {'m1': 'unknown'})}
            for key, (generation, _) in state.documents.items()}

    def probe(self):
        """Change the state of a random member."""
        if self.facts.held:
            key = self._random.choice(sorted(self.facts.held))
            self.members[key] = {'m1': self._random.choice(STATES)}
            self.facts.held[key] = {**self.facts.held[key],
                                    'members': self.members[key]}

    def report(self):
        self.reporter.answered(self._network.report(
            HOST, *self.reporter.next(self.facts)))


class TestProtocol(store_base.StoreTestCase):

    def renew(self):
        super().renew()
        self.touched = set()
        self.store.nodes.register(HOST)
        # Pages of two controllers, each of which only knows its own ones.
        self.sent = [pages.Pages(self.store.deltas.changes) for _ in range(2)]
        self.endpoints = [
            node_api.NodesEndpoint(
                self.store, lambda host, ids, held: self.touched.update(ids),
                lambda: None, sender.fetched) for sender in self.sent]
        self.on_the_way = []

    def notify(self, source, node):
        """Send a page, which may be lost, duplicated or reordered."""
        page = source.choice(self.sent).next(HOST)
        if page is not None and source.random() < 0.8:
            self.on_the_way += [page] * source.choice((1, 1, 2))
        source.shuffle(self.on_the_way)
        while self.on_the_way and source.random() < 0.7:
            self.received += 1
            node.receive(*self.on_the_way.pop())

    def act(self, source):
        """Change the load balancers that the node should have."""
        number = source.randint(1, 6)
        key = f'lb{number}'
        row = self.store.load_balancers.get(key)
        placed = [row for row in self.store.placements.select([key])
                  if row.removed_generation is None]
        event = source.random()
        if row is None:
            self.store.load_balancers.create(spec.document(
                key, base.numbered_tree(number)))
        elif row.deleted:
            if not self.store.placements.select([key]):
                self.store.load_balancers.forget(key)
        elif event < 0.15:
            self.store.load_balancers.delete(key)
        elif event < 0.4:
            self.store.placements.place(key, **({'remove': [HOST]} if placed
                                                else {'add': [HOST]}))
        else:
            name = f'n{source.randint(0, 99)}'
            self.store.load_balancers.change(
                key, lambda document: changes.apply(document, {
                    'object': 'listener', 'action': 'update',
                    'object_id': f'listener{number}',
                    'fields': {'name': name}}))

    def expected(self):
        """Return id → document of the node's load balancers."""
        return {key: spec.for_node(row.document) for key in {
            row.load_balancer_id for row in self.store.placements.select()
            if row.removed_generation is None}
            if (row := self.store.load_balancers.get(key)) and not row.deleted}

    def test_both_sides_agree_after_losses(self):
        self.received = 0
        for seed in range(RUNS):
            source = random.Random(seed)
            self.renew()
            network = networks.Network(source, lambda: self.endpoints)
            node = Node(source, network, f'{self.directory()}/wanted',
                        iter(range(source.choice((1, 10 ** 6)), 10 ** 9)))
            for _ in range(STEPS):
                event = source.random()
                try:
                    if event < 0.4:
                        self.act(source)
                    elif event < 0.5:
                        node.fetch()
                    elif event < 0.6:
                        self.notify(source, node)
                    elif event < 0.85:
                        node.report()
                    elif event < 0.95:
                        node.probe()
                    else:
                        node.start()
                except networks.Lost:
                    pass
            network.faults = False
            network.deliver_late()
            for _ in range(4):
                node.fetch()
                node.report()
                while node.reporter.is_behind:
                    node.report()
            self.check(node, seed)
        self.assertGreater(self.received, RUNS)

    def check(self, node, seed):
        expected = self.expected()
        self.assertEqual(expected, {
            key: document for key, (_, document)
            in node.fetcher.wanted.documents.items()}, seed)
        placements = self.store.placements.select()
        # Every removal is confirmed.
        self.assertEqual(set(expected), {
            row.load_balancer_id for row in placements}, seed)
        for row in placements:
            held = node.facts.held[row.load_balancer_id]
            self.assertEqual(
                (held['generation'], held['members'], True),
                (row.synced_generation, row.members, row.announced), seed)

    def directory(self):
        return self.database().removeprefix('sqlite:///').rpartition('/')[0]
