# SPDX-License-Identifier: Apache-2.0
"""Calls of Octavia's API, over HTTP."""

import threading
import time
import types
from unittest import mock

from keystoneauth1 import _fair_semaphore

from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.controller.octavia import api
from octavia_xdp_provider.controller.octavia import errors
from octavia_xdp_provider.controller.octavia import limited
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller.octavia import api_server


def balancer(key, **more):
    return dict({'id': key, 'provider': 'xdp', 'updated_at': None,
                 'provisioning_status': 'ACTIVE',
                 'operating_status': 'ONLINE'}, **more)


def row(key, provisioning='ACTIVE', **more):
    return dict({'id': key, 'provisioning_status': provisioning}, **more)


class ApiTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.server = self.useFixture(api_server.ApiServer())

    def api(self, **more):
        return api.Api(self.load(self.server.configuration(**more)))

    def add(self, *rows):
        for fields in rows:
            self.server.balancers[fields['id']] = fields

    def unavailable(self, call, *arguments):
        return self.assertRaises(errors.OctaviaUnavailable, call, *arguments)

    def listed(self, tested):
        return [row.id for row in tested.listed()]


class TestConfiguration(base.TestCase):

    def test_missing_or_invalid_options_are_named(self):
        for options, words in (
                ('', ('[octavia] auth_type', 'auth_url', 'username',
                      'load-balancer_global_observer')),
                ('auth_type = v3password\nusername = x\n',
                 ['user_domain_name']),
                ('auth_type = v3password\n', ['auth_url']),
                ('auth_type = magic\n', ['[octavia]']),
                ('auth_type = none\npage_size = 0\n', ['page_size'])):
            error = self.assertRaises(
                option_values.ConfigurationError, api.Api,
                self.load(f'[octavia]\n{options}'))
            for word in words:
                self.assertIn(word, str(error))


class TestClock(ApiTestCase):

    def test_request_is_not_delayed_by_clock_set_back(self):
        self.add(balancer('a'))
        tested = self.api()
        clock = types.SimpleNamespace(
            time=lambda: time.time() - 3600, sleep=mock.Mock(
                side_effect=AssertionError('it waits for an hour')))
        with mock.patch.object(_fair_semaphore, 'time', clock):
            self.assertEqual('ACTIVE', tested.provisioning_status('a'))


class TestListed(ApiTestCase):

    def pages(self):
        return [query for _path, query in self.server.requests
                if 'provider' in query]

    def test_user_without_global_view_gets_no_list(self):
        """Octavia would list the user's own, and all others were missing."""
        self.add(balancer('a'))
        self.server.sees_all = False
        self.assertIn('global_observer', str(
            self.unavailable(self.listed, self.api())))

    def test_rows_have_octavias_values(self):
        self.add(balancer('a', updated_at='2026-01-01T00:00:00',
                          provisioning_status='PENDING_UPDATE',
                          operating_status='DEGRADED'))
        self.assertEqual(
            [api.Listed('a', 'PENDING_UPDATE', 'DEGRADED',
                        '2026-01-01T00:00:00')], list(self.api().listed()))
        path, query = self.server.requests[-1]
        self.assertEqual('/v2.0/lbaas/loadbalancers', path)
        self.assertEqual(['xdp'], query['provider'])

    def test_no_load_balancers_are_an_empty_list(self):
        self.assertEqual([], self.listed(self.api()))

    def test_all_pages_are_requested(self):
        self.add(*[balancer(f'b{number}') for number in range(7)])
        for size in (1, 2, 3, 7, 8):
            self.server.requests.clear()
            self.assertEqual(
                [f'b{number}' for number in range(7)],
                self.listed(self.api(page_size=size)), size)
            # A full page is not known to be the last one.
            self.assertEqual(7 // size + 1, len(self.pages()))
        # Octavia's own limit, and a list without pagination.
        for page_max, size, pages in ((2, 500, 4), (None, 2, 1)):
            self.server.requests.clear()
            self.server.page_max = page_max
            self.assertEqual(7, len(self.listed(self.api(page_size=size))))
            self.assertEqual(pages, len(self.pages()))

    def test_other_providers_are_omitted_even_without_filters(self):
        self.add(balancer('a'), balancer('b', provider='amphora'))
        for filters in (True, False):
            self.server.filters = filters
            self.assertEqual(['a'], self.listed(self.api()))

    def test_answer_without_a_list_is_unavailable(self):
        for status, text in ((200, b'{}'), (200, b'[]'), (200, b'null'),
                             (200, b'<html>'), (200, b''),
                             (404, b'{"faultstring": "not found"}'),
                             (200, b'{"loadbalancers": null}'),
                             (200, b'{"loadbalancers": [{"id": "a"}]}')):
            self.server.meddle = lambda handler, answer=(status, text): (
                handler.answer(*answer) or True)
            self.unavailable(self.listed, self.api())

    def test_failing_page_fails_the_list(self):
        self.add(*[balancer(f'b{number}') for number in range(4)])
        self.server.meddle = lambda handler: (
            'marker' in handler.path
            and (handler.answer(503, {}) or True))
        self.unavailable(self.listed, self.api(page_size=2))


class TestTree(ApiTestCase):

    def setUp(self):
        super().setUp()
        self.add(balancer('lb'))

    def test_used_pools_are_in_the_listeners_tree(self):
        pool = row('p', 'PENDING_UPDATE', members=[
            row('m1'), row('m2', 'PENDING_DELETE')],
            health_monitor=row('hm', 'ERROR'))
        self.server.trees['lb'] = row('lb', 'PENDING_UPDATE', listeners=[
            row('l1', 'PENDING_UPDATE', pools=[pool]),
            row('l2', pools=[pool]), row('l3', pools=[])])
        self.server.pools['p'] = row(
            'p', loadbalancers=[{'id': 'lb'}], healthmonitor_id='hm')
        self.assertEqual({
            ('loadbalancer', 'lb'): 'PENDING_UPDATE',
            ('listener', 'l1'): 'PENDING_UPDATE',
            ('listener', 'l2'): 'ACTIVE', ('listener', 'l3'): 'ACTIVE',
            ('pool', 'p'): 'PENDING_UPDATE', ('member', 'm1'): 'ACTIVE',
            ('member', 'm2'): 'PENDING_DELETE',
            ('healthmonitor', 'hm'): 'ERROR'}, self.api().tree('lb'))

    def test_unused_pools_are_requested(self):
        self.server.trees['lb'] = row('lb', listeners=[])
        self.server.pools = {
            'p': row('p', 'PENDING_CREATE', loadbalancers=[{'id': 'lb'}],
                     healthmonitor_id='hm', members=[row('m')],
                     monitor=row('hm', 'PENDING_CREATE')),
            'bare': row('bare', loadbalancers=[{'id': 'lb'}], members=[]),
            'foreign': row('foreign', loadbalancers=[{'id': 'other'}],
                           members=[])}
        self.assertEqual({
            ('loadbalancer', 'lb'): 'ACTIVE',
            ('pool', 'p'): 'PENDING_CREATE', ('member', 'm'): 'ACTIVE',
            ('pool', 'bare'): 'ACTIVE',
            ('healthmonitor', 'hm'): 'PENDING_CREATE'},
            self.api().tree('lb'))

    def test_policies_and_rules_are_requested(self):
        self.server.trees['lb'] = row('lb', listeners=[
            row('l1', pools=[]), row('l2', pools=[]), row('l3', pools=[])])
        self.server.policies = {
            'l1': {'po1': row('po1', 'PENDING_CREATE', listener_id='l1',
                              rules=[row('r1', 'PENDING_CREATE'),
                                     row('r2', 'PENDING_DELETE')]),
                   'po2': row('po2', listener_id='l1', rules=[])},
            'l2': {'po3': row('po3', listener_id='l2', rules=[row('r3')])},
            'foreign': {'po4': row('po4', listener_id='foreign', rules=[])}}
        for filters in (True, False):
            self.server.filters = filters
            self.server.requests.clear()
            self.assertEqual({
                ('l7policy', 'po1'): 'PENDING_CREATE',
                ('l7policy', 'po2'): 'ACTIVE', ('l7policy', 'po3'): 'ACTIVE',
                ('l7rule', 'r1'): 'PENDING_CREATE',
                ('l7rule', 'r2'): 'PENDING_DELETE',
                ('l7rule', 'r3'): 'ACTIVE'}, {
                    item: status for item, status
                    in self.api(page_size=1).tree('lb').items()
                    if item[0] in ('l7policy', 'l7rule')})
        self.assertEqual({'l1', 'l2'}, {
            listener for _path, query in self.server.requests
            for listener in query.get('listener_id', ())})

    def test_unknown_load_balancer_is_none(self):
        self.assertIsNone(self.api().tree('other'))
        self.assertIsNone(self.api().provisioning_status('other'))

    def test_foreign_404_or_malformed_answer_is_unavailable(self):
        for status, texts in (
                (404, (b'<html>lb</html>', b'{"faultstring": "no such path"}',
                       b'{}', b'[]', b'"lb"', b'{"faultstring": null}')),
                (200, (b'{}', b'{"statuses": {}}', b'garbage', b'[]',
                       b'{"statuses": {"loadbalancer": {"id": "lb"}}}'))):
            for text in texts:
                self.server.meddle = lambda handler, answer=(status, text): (
                    handler.answer(*answer) or True)
                self.unavailable(self.api().tree, 'lb')
                self.unavailable(self.api().provisioning_status, 'lb')

    def test_wrong_endpoint_is_unavailable(self):
        self.unavailable(self.api(
            endpoint_override=f'{self.server.url}/elsewhere').tree, 'lb')

    def test_endpoint_may_include_the_version(self):
        self.server.trees['lb'] = row('lb', listeners=[])
        for suffix in ('/v2.0', '/v2', '/load-balancer/v2.0'):
            self.server.suffix = suffix
            self.assertEqual({('loadbalancer', 'lb'): 'ACTIVE'},
                             self.api().tree('lb'))

    def test_provisioning_status_is_returned(self):
        self.add(balancer('lb', provisioning_status='PENDING_CREATE'))
        self.assertEqual('PENDING_CREATE',
                         self.api().provisioning_status('lb'))


class TestFailures(ApiTestCase):

    def setUp(self):
        super().setUp()
        self.add(balancer('lb'))
        self.release = threading.Event()
        self.addCleanup(self.release.set)

    def test_expired_token_is_replaced(self):
        tested = self.api()
        self.assertEqual('ACTIVE', tested.provisioning_status('lb'))
        old = list(self.server.tokens)
        self.server.meddle = lambda handler: (
            handler.headers['X-Auth-Token'] in old
            and (handler.answer(401, {}) or True))
        self.assertEqual('ACTIVE', tested.provisioning_status('lb'))
        self.assertEqual(len(old) + 1, len(self.server.tokens))

    def test_refusals_suggest_the_cause(self):
        for status, words in ((401, 'user and password'), (403, 'role'),
                              (503, '503'), (500, '500')):
            self.server.meddle = lambda handler, status=status: (
                handler.answer(status, {}) or True)
            error = self.unavailable(self.api().provisioning_status, 'lb')
            self.assertIn(words, str(error))

    def test_missing_keystone_is_unavailable(self):
        self.unavailable(self.api(
            auth_url='http://127.0.0.1:1/v3').provisioning_status, 'lb')

    def test_hanging_server_is_unavailable(self):
        self.server.meddle = lambda handler: self.release.wait()
        self.unavailable(self.api(timeout=0.5).provisioning_status, 'lb')

    def test_endless_answer_is_unavailable(self):
        """A time-out per packet would never expire."""
        def trickle(handler):
            handler.send_response(200)
            handler.send_header('Content-Length', '1000000')
            handler.end_headers()
            try:
                while not self.release.wait(0.05):
                    handler.wfile.write(b' ')
            except OSError:
                pass
            return True
        self.server.meddle = trickle
        error = self.unavailable(
            self.api(timeout=0.5).provisioning_status, 'lb')
        self.assertIn('within 1.5 s', str(error))

    def test_hanging_server_occupies_a_limited_number_of_threads(self):
        self.server.meddle = lambda handler: self.release.wait()
        tested = self.api(timeout=0.5)
        failures = []

        def call():
            failures.append(
                self.unavailable(tested.provisioning_status, 'lb'))
        threads = [threading.Thread(target=call) for _ in range(30)]
        for thread in threads:
            thread.start()
        self.assertLessEqual(len(self.server.requests), api._CALLS_MAX)
        for thread in threads:
            thread.join()
        self.assertEqual(30, len(failures))


# Limit of a call that never ends; no test waits for more than two of these.
_TIMEOUT_S = 0.2


class TestLimited(base.TestCase):
    """Hanging calls count until they end, and limit only their own kind."""

    def setUp(self):
        super().setUp()
        self.end = threading.Event()
        self.addCleanup(self.end.set)
        self.begun = []
        self.calls = limited.Limited('what is asked', 2, _TIMEOUT_S)

    def hang(self):
        self.begun.append(1)
        self.end.wait()

    def test_hanging_calls_count_until_they_end(self):
        for _ in range(2):
            self.assertRaises(errors.OctaviaUnavailable,
                              self.calls.call, self.hang)
        self.assertRaises(errors.OctaviaUnavailable,
                          self.calls.call, self.begun.append, 3)
        self.assertEqual([1, 1], self.begun)

    def test_running_and_waiting_calls_are_counted(self):
        calls = limited.Limited('what is counted', 1, 60)
        threads = [threading.Thread(target=calls.call, args=(self.hang,))
                   for _ in range(2)]
        for states in ((1, 0), (1, 1)):
            threads[states[1]].start()
            self.wait_until(lambda states=states: states == self.counted())
        self.end.set()
        for thread in threads:
            thread.join(60)
        self.wait_until(lambda: self.counted() == (0, 0))

    def counted(self):
        states = limited.calls()['what is counted']
        return states['running'], states['waiting']

    def test_other_calls_are_served_meanwhile(self):
        self.assertRaises(errors.OctaviaUnavailable,
                          self.calls.call, self.hang)
        self.assertEqual(5, self.calls.call(sum, (2, 3)))
