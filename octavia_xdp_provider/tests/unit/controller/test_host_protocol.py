# SPDX-License-Identifier: Apache-2.0
"""Agents of hypervisors and controllers over a network that loses, repeats
and delays: both sides as they are."""

import contextlib
import random
from unittest import mock

from octavia_xdp_provider.contracts import host_spec
from octavia_xdp_provider.controller import host_api
from octavia_xdp_provider.controller.store import ways
from octavia_xdp_provider.host import fetching
from octavia_xdp_provider.host import link
from octavia_xdp_provider.process.agents import reports
from octavia_xdp_provider.process.agents import wanted
from octavia_xdp_provider.tests.unit.controller import base
from octavia_xdp_provider.tests.unit.controller import network as networks

HOST, OTHER = 'hv1', 'hv2'
RUNS, STEPS, IDS = 8, 30, 6
OPTIONS = '[zero_touch]\nnode_networks = 198.18.0.0/24\n'


def uuid(number):
    return f'00000000-0000-4000-8000-{number:012}'


class Agent:

    def __init__(self, network, directory, epochs):
        self._network, self._directory = network, directory
        self._epochs = epochs
        self.start()

    def start(self):
        """Start, or restart after it was killed."""
        self.fetcher = fetching.Fetcher(
            self._network, HOST, wanted.Cache(f'{self._directory}/wanted'),
            f'{self._directory}/common')
        self.reporter = reports.Reporter(next(self._epochs), link.HOSTS)
        self.facts = reports.Facts(state={'agent': '1'})

    def fetch(self):
        self.fetcher.fetch()
        known = self.fetcher.wanted
        self.facts = reports.Facts(
            known.as_of, {key: {'generation': generation, 'ifindex': 3,
                                'error': None}
                          for key, (generation, _)
                          in known.documents.items()},
            {}, {'agent': '1'}, known.as_of)

    def report(self):
        answer = self._network.report(HOST, *self.reporter.next(self.facts))
        self.reporter.answered(answer)


class TestProtocol(base.StoreTestCase):

    def load(self, text=''):
        return super().load(text + OPTIONS)

    def renew(self):
        super().renew()
        for host in (HOST, OTHER):
            self.store.hypervisors.register(host)
        self.token = self.store.leases.acquire('duty', 'test', 3600)
        self.endpoint = mock.Mock(spec=())
        endpoint = host_api.HostsEndpoint(self.conf, self.store,
                                          lambda: None)
        # Positional as a network hands them over.
        self.endpoint.fetch = lambda context, host, since, after=None: (
            endpoint.fetch(context, host, since, after))
        self.endpoint.compare = endpoint.compare
        self.endpoint.documents = endpoint.documents
        self.endpoint.report = endpoint.report

    def act(self, source):
        key = uuid(source.randint(1, IDS))
        document = None if source.random() < 0.3 else (host_spec.PORT, {
            'version': 1, 'id': key, 'mac': 'fa:16:3e:00:00:01',
            'mtu': source.randint(1280, 1500), 'open': True, 'rules': [],
            'entries': []})
        host = source.choice((HOST, HOST, OTHER))
        self.store.ways.store(ways.Changes(documents={
            (host, key): document}), 'duty', self.token)

    def test_both_sides_agree_after_losses(self):
        for seed in range(RUNS):
            source = random.Random(seed)
            self.renew()
            network = networks.Network(source, lambda: [self.endpoint])
            directory = self.create_tempfiles([('x', '')])[0].rpartition(
                '/')[0]
            agent = Agent(network, directory, iter(range(7, 10 ** 9)))
            for _ in range(STEPS):
                event = source.random()
                with contextlib.suppress(networks.Lost):
                    if event < 0.05:
                        agent.start()
                    elif event < 0.4:
                        self.act(source)
                    elif event < 0.6:
                        agent.fetch()
                    else:
                        agent.report()
            network.faults = False
            network.deliver_late()
            for _ in range(4):
                agent.fetch()
                agent.report()
                while agent.reporter.is_behind:
                    agent.report()
            self.check(agent, seed)

    def check(self, agent, seed):
        objects = self.store.hypervisors.objects([HOST])
        # Every removal is confirmed.
        self.assertEqual([], [stored for stored in objects
                              if stored.removed_generation is not None], seed)
        self.assertEqual({stored.id: stored.document for stored in objects}, {
            key: {name: value for name, value in document.items()
                  if name != 'kind'} for key, (_, document)
            in agent.fetcher.wanted.documents.items()}, seed)
        self.assertTrue(all(stored.is_held for stored in objects), seed)
        self.assertEqual([], [
            stored for stored in self.store.hypervisors.objects([OTHER])
            if stored.held_generation], seed)
        self.assertEqual(['198.18.0.0/24'],
                         agent.fetcher.common['networks'], seed)
