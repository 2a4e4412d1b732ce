# SPDX-License-Identifier: Apache-2.0
"""Requests through a real HAProxy with our configuration, on loopback."""

import http.client
import socket

from octavia_xdp_provider.tests.functional.support import haproxy
from octavia_xdp_provider.tests.functional.support import haproxy_case
from octavia_xdp_provider.tests.functional.support import web_members
from octavia_xdp_provider.tests.support import proxied as documents

WEB, WEBS = haproxy_case.WEB, haproxy_case.WEBS
# A URL with all that Octavia's renderer for amphorae changes or cuts off.
URL = "https://example.com/it's?a=1&b=2#\"<x>\\%20$HOME"


class Requests(haproxy_case.Requests):

    def test_headers_are_inserted(self):
        proxy = self.start(documents.web(
            members=self.members('m'), insert_headers=[
                'X-Forwarded-For', 'X-Forwarded-Port', 'X-Forwarded-Proto',
                'X-Real-IP']))
        headers = self.get(proxy, headers={'X-Real-IP': 'forged'},
                           source='127.0.0.7')[2]['headers']
        self.assertEqual(
            {'x-forwarded-for': ['127.0.0.7'], 'x-real-ip': ['127.0.0.7'],
             'x-forwarded-port': [str(proxy.ports[WEB])],
             'x-forwarded-proto': ['http']},
            {name: value for name, value in headers.items()
             if name.startswith('x-')})

    def test_policies_of_each_kind(self):
        path = documents.rule
        document = documents.web({
            # Positions are against the order of actions.
            'pool': documents.policy(
                'REDIRECT_TO_POOL', {'a': path(value='/api')}, position=1,
                redirect_pool_id=documents.uuid_of('apis')),
            'later': documents.policy(
                'REDIRECT_TO_POOL', {'b': path(value='/api/v2')}, position=2,
                redirect_pool_id=WEBS),
            'url': documents.policy(
                'REDIRECT_TO_URL', {'c': path(value='/api/old')}, position=3,
                redirect_url=URL, redirect_http_code=301),
            'prefix': documents.policy(
                'REDIRECT_PREFIX', {'d': path('HOST_NAME', 'old.example.com',
                                              'EQUAL_TO')}, position=4,
                redirect_prefix='https://new.example.com/x'),
            'reject': documents.policy(rules={
                'e': path(value='/api'),
                'f': path('HEADER', '-f it\'s #1', 'EQUAL_TO', key='X-Name'),
                'g': path('COOKIE', r'^a\d$', 'REGEX', key='c', invert=True),
            }, position=5),
        }, self.members('web'))
        document['pools'][documents.uuid_of('apis')] = documents.pool(
            self.members('api'))
        proxy = self.start(document)

        self.assertEqual('web', self.answering(proxy))
        self.assertEqual('api', self.answering(proxy, path='/api/v2'))
        status, headers, _ = self.get(proxy, '/api/old')
        self.assertEqual((301, URL), (status, headers['Location']))
        status, headers, _ = self.get(proxy, '/a?b=1&c=2',
                                      {'Host': 'OLD.example.com'})
        self.assertEqual((302, 'https://new.example.com/x/a?b=1&c=2'),
                         (status, headers['Location']))
        rejected = {'X-Name': "-f it's #1"}
        self.assertEqual(403, self.get(proxy, '/api/old', rejected)[0])
        self.assertEqual(301, self.get(
            proxy, '/api/old', {**rejected, 'Cookie': 'c=a1'})[0])

    def test_types_of_files(self):
        proxy = self.start(documents.web({
            name: documents.policy(rules={f'{name}r': documents.rule(
                'FILE_TYPE', value, compare)})
            for name, value, compare in (('a', 'jpg', 'EQUAL_TO'),
                                         ('b', r'\.p[ng]+$', 'REGEX'))},
            self.members('m')))
        self.assertEqual([403, 403, 200], [self.get(proxy, path)[0] for path
                                           in ('/a.jpg', '/a.png', '/a.txt')])

    def persisting(self, persistence, **more):
        document = documents.web(members=self.members('m1', 'm2', 'm3'))
        document['pools'][WEBS].update(session_persistence=persistence, **more)
        return document

    def test_cookie_of_the_proxy_keeps_the_member(self):
        proxy = self.start(self.persisting(
            {'type': 'HTTP_COOKIE', 'cookie_name': None}))
        _, headers, answer = self.get(proxy)
        self.assertEqual(f'SRV={documents.uuid_of(answer["member"])}',
                         headers['Set-Cookie'].split(';')[0])
        cookie = {'Cookie': headers['Set-Cookie'].split(';')[0]}
        self.assertEqual({answer['member']}, {
            self.answering(proxy, headers=cookie) for _ in range(9)})

    def test_cookie_of_the_application_keeps_the_member(self):
        document = self.persisting(
            {'type': 'APP_COOKIE', 'cookie_name': 'JSESSIONID'})
        # Two nodes: one lets the client in, the other one knows it as well.
        proxy, other = self.start(document), self.start(document)
        _, headers, answer = self.get(proxy, '/login')
        cookie = {'Cookie': headers['Set-Cookie'].split(';')[0]}
        for _ in range(9):
            _, _, again = self.get(other, headers=cookie)
            self.assertEqual(answer['member'], again['member'])
            # The application has its own value.
            self.assertEqual([f'JSESSIONID={answer["member"]}'],
                             again['headers']['cookie'])

    def test_hash_of_the_address_is_the_same_on_all_nodes(self):
        document = self.persisting({'type': 'SOURCE_IP', 'cookie_name': None})
        proxies = [self.start(document) for _ in range(2)]
        chosen = [{number: self.answering(proxy, source=f'127.0.1.{number}')
                   for number in range(1, 41)} for proxy in proxies]
        self.assertEqual(*chosen)
        self.assertEqual({'m1', 'm2', 'm3'}, set(chosen[0].values()))

    def test_hash_of_address_and_port_spreads_a_client(self):
        proxy = self.start(self.persisting(
            None, lb_algorithm='SOURCE_IP_PORT'))
        self.assertEqual({'m1', 'm2', 'm3'}, {
            self.answering(proxy) for _ in range(60)})

    def test_member_that_is_down_waits_for_the_runtime_api(self):
        proxy = self.start(documents.web(members=self.members('m1', 'm2')),
                           down={documents.uuid_of('m1')})
        self.assertEqual({'m2'}, {self.answering(proxy) for _ in range(4)})
        self.assertEqual('\n', proxy.runtime(
            f'set server {WEBS}:{WEB}/{documents.uuid_of("m1")} state ready'))
        self.assertEqual({'m1', 'm2'},
                         {self.answering(proxy) for _ in range(4)})

    def test_backup_members_take_over_together(self):
        members = self.members('m1', 'm2', 'm3')
        for name in ('m2', 'm3'):
            members[name]['backup'] = True
        document = documents.web(members=members)
        self.assertEqual({'m1'}, {self.answering(self.start(document))
                                  for _ in range(2)})
        proxy = self.start(document, down={documents.uuid_of('m1')})
        self.assertEqual({'m2', 'm3'},
                         {self.answering(proxy) for _ in range(4)})

    def test_members_are_told_the_client_by_the_proxy_protocol(self):
        document = documents.web(
            members={'m': documents.member(
                '127.0.0.1', protocol_port=web_members.first_line(self))},
            protocol='TCP')
        document['pools'][WEBS]['protocol'] = 'PROXY'
        proxy = self.start(document)
        self.assertRegex(
            web_members.read_all(proxy.ports[WEB], b'x', '127.0.0.9'),
            rb'^PROXY TCP4 127\.0\.0\.9 127\.0\.0\.1 \d+ \d+\r\n')

    def test_reload_fails_no_request_on_an_idle_connection(self):
        document = documents.web(members=self.members('m'))
        proxy = self.start(document)
        other = documents.web({'p': documents.policy(rules={
            'r': documents.rule(value='/api')})})
        other['pools'] = document['pools']
        connections = [http.client.HTTPConnection(
            '127.0.0.1', proxy.ports[WEB], timeout=20) for _ in range(9)]

        def ask(connection):
            connection.request('GET', '/api')
            answer = connection.getresponse()
            answer.read()
            return answer.status, answer.getheader('Connection')

        for connection in connections:
            self.addCleanup(connection.close)
            self.assertEqual((200, None), ask(connection))
        proxy.reload(other)
        self.wait('another worker', lambda: proxy.reloads() == 1)
        self.assertEqual(403, self.get(proxy, '/api')[0])
        # The worker before answers a last request on each.
        self.assertEqual({(200, 'close')}, set(map(ask, connections)))

    def test_probes_are_answered_while_all_connections_are_in_use(self):
        """Those of one listener; those of the node, by two listeners."""
        for names in (('web',), ('web', 'other')):
            proxy = self.start(documents.document(
                {name: documents.listener() for name in names}))
            self.fill(proxy, [documents.uuid_of(name) for name in names])
            self.assertEqual(200, self.get(proxy,
                                           listener=haproxy.HEALTH)[0])

    def fill(self, proxy, listeners):
        """Open connections until HAProxy takes no more."""
        limit = proxy.settings.connections
        for place in range(limit):
            client = socket.create_connection(
                ('127.0.0.1', proxy.ports[listeners[place % len(listeners)]]))
            self.addCleanup(client.close)
        self.wait('connections', lambda: f'CurrConns: {limit}\n'
                  in proxy.runtime('show info'))
        if len(listeners) > 1:
            # There is room in the listener, but not in the node.
            self.assertRaises(ConnectionResetError, web_members.read_all,
                              proxy.ports[listeners[0]])

    def test_metrics_come_from_the_socket(self):
        proxy = self.start(documents.document({'web': documents.listener(
            protocol='PROMETHEUS')}))
        web_members.start_at(self, 'exporter', proxy.settings.metrics_socket())
        answer = self.get(proxy, '/metrics')[2]
        self.assertEqual(('exporter', '/metrics'),
                         (answer['member'], answer['path']))


class TestDebian(Requests):
    program = haproxy.SYSTEM


class TestNewer(Requests):
    program = haproxy.other_version()


del Requests
