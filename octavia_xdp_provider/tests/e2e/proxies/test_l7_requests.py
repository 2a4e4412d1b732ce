# SPDX-License-Identifier: Apache-2.0
"""Requests through LB nodes and proxy nodes: who answers, and what it is
told."""

from lab.fabric import http
from lab.fabric import members
from octavia_xdp_provider.tests.e2e.support import proxied

REQUESTS = 40


class Common:

    def test_members_answer_in_turn(self):
        count = self.check_requests(self.balancer, number=REQUESTS)
        first, second = count.values()
        # Each proxy has a turn of its own.
        self.assertLessEqual(abs(first - second), len(self.nodes), count)

    def test_members_are_told_who_the_client_is(self):
        peers = set()
        for _ in range(REQUESTS):
            shown = self.ask_headers(self.balancer)
            self.assertEqual(
                (self.client_address, '80', 'http'),
                tuple(shown[name] for name in proxied.HEADERS))
            peers.add(shown['peer'])
        self.assertEqual(self.proxy_addresses, peers)

    def test_forged_headers_of_a_client_are_replaced(self):
        shown = self.ask_headers(
            self.balancer, '-H', 'X-Forwarded-Proto: https')
        self.assertEqual('http', shown['X-Forwarded-Proto'])


class TestHttp(Common, proxied.SharedCase):

    def test_dead_member_is_taken_out(self):
        self.end_server(members.http_name('member1'))
        self.wait_statuses(self.pool, {'member1': 'ERROR',
                                       'member2': 'ONLINE'})
        self.wait('requests to one alone', lambda: (
            self.answering(self.balancer) == {'member2'}))
        self.check_requests(self.balancer, ['member2'])
        self.assertEqual('DEGRADED', self.sdk.get_pool(
            self.pool.id).operating_status)
        self.start_server(members.http_name('member1'))
        self.wait_statuses(self.pool, dict.fromkeys(proxied.HOSTS, 'ONLINE'))
        self.wait('requests to both', lambda: (
            self.answering(self.balancer) == set(proxied.HOSTS)))

    def test_cookie_keeps_a_client_at_a_member_through_all_proxies(self):
        self.change_pool(session_persistence={'type': 'HTTP_COOKIE'})
        self.addCleanup(self.change_pool, session_persistence=None)
        self.wait('a cookie', lambda: 'set-cookie' in self.ask(
            self.balancer).headers)
        first = self.ask(self.balancer, '/headers')
        cookie = first.headers['set-cookie'].partition(';')[0]
        answers = [self.ask_headers(self.balancer, '-H',
                                    f'Cookie: {cookie}')
                   for _ in range(REQUESTS)]
        self.assertEqual({http.shown(first)['member']},
                         {shown['member'] for shown in answers})
        self.assertEqual(self.proxy_addresses,
                         {shown['peer'] for shown in answers})

    def test_statistics_count_each_request_once(self):
        before = self.wait_quiet()
        for _ in range(REQUESTS):
            self.assertEqual(200, self.ask(self.balancer).status)
        self.wait('connections', lambda: (
            self.statistics()['total_connections']
            == before['total_connections'] + REQUESTS), interval=1)
        after = self.statistics()
        self.assertGreater(after['bytes_in'], before['bytes_in'])
        self.assertGreater(after['bytes_out'], before['bytes_out'])
        self.assertEqual(0, after['active_connections'])

    def statistics(self):
        return self.sdk.get(
            f'/lbaas/listeners/{self.listener.id}/stats').json()['stats']

    def wait_quiet(self):
        """Wait until two reports in a row have the same numbers."""
        seen = []

        def is_quiet():
            seen.append(self.statistics())
            return seen[-3:].count(seen[-1]) == 3
        self.wait('statistics that stay', is_quiet, interval=3)
        return seen[-1]

    def change_pool(self, **fields):
        self.sdk.update_pool(self.pool.id, **fields)
        self.wait_active(self.balancer)


class TestHttpV6(Common, proxied.SharedCase):

    OPTIONS = {'version': 6}


class TestTcp(proxied.ProxiedCase):

    def test_round_robin_of_connections(self):
        balancer, _, _, _ = self.create_http(protocol='TCP')
        count = self.check_requests(balancer, number=REQUESTS)
        first, second = count.values()
        self.assertLessEqual(abs(first - second), len(self.nodes), count)


class TestBothTiers(proxied.ProxiedCase):

    def test_listener_of_proxies_beside_one_of_lb_nodes(self):
        """What lives on the older one is not disturbed."""
        balancer, _, _, _ = self.create_web(hosts=proxied.HOSTS, port=8080)
        self.check_requests(balancer, port=8080)
        listener = self.sdk.create_listener(
            load_balancer_id=balancer.id, protocol='HTTP', protocol_port=80)
        self.wait_active(balancer)
        pool = self.sdk.create_pool(
            listener_id=listener.id, protocol='HTTP',
            lb_algorithm='ROUND_ROBIN')
        self.wait_active(balancer)
        for host in proxied.HOSTS:
            self.create_member(pool, host)
            self.wait_active(balancer)
        self.wait_proxies(balancer, len(self.nodes))
        self.check_requests(balancer)
        self.check_requests(balancer, port=8080)
