# SPDX-License-Identifier: Apache-2.0
"""From a client by an LB node and a proxy to a web server."""

import copy
import http.client
import signal

from octavia_xdp_provider.contracts import views
from octavia_xdp_provider.controller.store import moves
from octavia_xdp_provider.tests.functional.support import tier_bed

BOTH = {(web, proxy) for web in tier_bed.WEBS for proxy in tier_bed.PROXIES}


class TestProxied(tier_bed.TierBed):

    def setUp(self):
        super().setUp()
        self.serve(tier_bed.proxied(tier_bed.document()))
        self.wait_up(*tier_bed.PROXIES)

    def test_requests_reach_all_webs_by_all_proxies(self):
        for vip in (tier_bed.VIP, tier_bed.VIP6):
            for node in tier_bed.NODES:
                self.route(node)
                answers = {self.get(vip) for _ in range(60)}
                self.assertEqual(BOTH, answers)

    def test_proxy_that_hangs_is_out_though_its_socket_accepts(self):
        self.proxies['proxy1'].freeze()
        self.wait_up('proxy2')
        # Its kernel still takes connections at the VIP.
        self.connect(host='proxy1').close()
        self.assertEqual({'proxy2'}, {self.get()[1] for _ in range(20)})
        self.proxies['proxy1'].signal(signal.SIGCONT)
        self.wait_up(*tier_bed.PROXIES)

    def test_connections_stay_with_a_proxy_that_drains(self):
        """And with both when another LB node sees them, which has no memory of
        those that began since: proxies hand these on to each other."""
        clients = self.open_clients(24)
        document = tier_bed.document()
        for weights, taking in (({'proxy1': 0}, ['proxy2']),
                                ({}, tier_bed.PROXIES)):
            before = [self.ask(client)[1] for client in clients]
            self.apply(tier_bed.proxied(document, **weights))
            self.wait_up(*taking)
            self.assertEqual(before, [self.ask(client)[1]
                                      for client in clients])
            later = self.open_clients(24)
            self.assertEqual(set(taking), {self.ask(client)[1]
                                           for client in later})
            clients += later
        before = [self.ask(client)[1] for client in clients]
        for node in tier_bed.NODES:
            self.route(node)
            self.assertEqual(before, [self.ask(client)[1]
                                      for client in clients])

    def test_death_of_haproxy_refuses_nobody(self):
        refused, broken, served = [], [], set()
        killed = self.proxies['proxy1'].signal(signal.SIGKILL)
        for number in range(200):
            if number in (50, 100):
                killed |= self.proxies['proxy1'].signal(signal.SIGKILL)
            try:
                served.add(self.get()[1])
            except ConnectionRefusedError as error:
                refused.append(error)
            except (OSError, http.client.HTTPException) as error:
                broken.append(error)
        self.assertGreater(len(killed), 2)
        self.assertEqual(([], set(tier_bed.PROXIES)), (refused, served))
        # In flight.
        self.assertLessEqual(len(broken), 3)


class TestMove(tier_bed.TierBed):
    """A listener of TCP moves to proxies and back, with its connections."""

    NOW = 1_800_000_000.0

    def clients(self):
        """Return connections, and who answers at each."""
        return [(client, self.ask(client))
                for client in self.open_clients(24)]

    def assert_alive(self, clients):
        """See that all connections are where they were."""
        for client, answer in clients:
            self.assertEqual(answer, self.ask(client))

    def with_algorithm(self, document, algorithm):
        """Return the document after a change of its pool's algorithm."""
        after = copy.deepcopy(document)
        pool, = after['pools'].values()
        pool['lb_algorithm'] = algorithm
        return moves.note(document, views.with_moves(document, after),
                          self.NOW)

    def test_connections_live_on(self):
        self.prepare_webs()
        document = tier_bed.document('TCP', lb_algorithm='SOURCE_IP_PORT')
        self.apply(document)
        self.wait_up(*tier_bed.WEBS)
        direct = self.clients()
        self.assertEqual({(web, 'client') for web in tier_bed.WEBS},
                         {answer for _client, answer in direct})

        document = self.with_algorithm(document, 'ROUND_ROBIN')
        self.apply(document)
        self.assert_alive(direct)
        self.assertEqual('client', self.get()[1])

        document = tier_bed.proxied(document)
        self.serve(document)
        self.wait_up(*tier_bed.PROXIES)
        self.assert_alive(direct)
        proxied = self.clients()
        self.assertEqual(BOTH, {answer for _client, answer in proxied})

        document = self.with_algorithm(document, 'SOURCE_IP_PORT')
        del document['proxies']
        self.apply(document)
        self.wait_up(*tier_bed.WEBS)
        self.assert_alive(direct + proxied)
        self.assertEqual('client', self.get()[1])
        # Proxies go on with what they have.
        self.serve(document)
        self.assert_alive(direct + proxied)
