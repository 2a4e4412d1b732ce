# SPDX-License-Identifier: Apache-2.0
"""Checks and states of members, from documents and results."""

from octavia_xdp_provider.health import checks
from octavia_xdp_provider.health import queue_file
from octavia_xdp_provider.proxy.health import members
from octavia_xdp_provider.proxy.health import states
from octavia_xdp_provider.tests.support import proxied as documents
from octavia_xdp_provider.tests.unit import base

WEBS = documents.uuid_of('webs')
UP, DOWN, UNKNOWN = (queue_file.State.UP, queue_file.State.DOWN,
                     queue_file.State.UNKNOWN)


def monitor(kind='HTTP', **more):
    return {'id': documents.uuid_of('monitor'), 'admin_state_up': True,
            'type': kind, 'delay': 5, 'timeout': 4, 'max_retries': 3,
            'max_retries_down': 2, 'http_method': 'HEAD', 'url_path': '/up',
            'expected_codes': '200,204', 'http_version': 1.1,
            'domain_name': 'example.com', **more}


def document(*names, kind='HTTP', **pool):
    result = documents.web(members={
        name: documents.member(f'198.18.0.{number}')
        for number, name in enumerate(names, 1)})
    result['pools'][WEBS].update({'healthmonitor': monitor(kind), **pool})
    return result


def verdict(state, verified=True):
    encoded = queue_file.encode(queue_file.Kind.SNAPSHOT, 1, 0, 1, [
        queue_file.Record(1, 1, 0, state, 0,
                          queue_file.FLAG_VERIFIED if verified else 0, 0)])
    return queue_file.decode(encoded).columns.verdicts[0]


class TestPlan(base.TestCase):

    def plan(self, given):
        return members.plan(given, checks.UNKEYED)

    def test_check_of_a_member(self):
        plan = self.plan(document('a'))
        check, = plan.file['checks']
        self.assertEqual({documents.uuid_of('a'): int(check.pop('key'), 16)},
                         plan.monitored)
        self.assertEqual({
            'type': 'http', 'address': '198.18.0.1', 'port': 80, 'delay': 5,
            'timeout': 4, 'rise': 3, 'fall': 2, 'http': {
                'method': 'HEAD', 'path': '/up', 'version': '1.1',
                'host': 'example.com',
                'expected_codes': [[200, 200], [204, 204]]}}, check)

    def test_types_of_monitors(self):
        for kind, tls, expected in (
                ('TCP', False, 'tcp'), ('PING', False, 'ping'),
                ('TLS-HELLO', False, 'tls-hello'), ('HTTPS', False, 'https'),
                # Members speak TLS where HAProxy speaks TLS with them.
                ('HTTP', True, 'https'), ('TCP', True, 'tls-hello'),
                ('PING', True, 'ping')):
            plan = self.plan(document('a', kind=kind, tls_enabled=tls))
            self.assertEqual(expected, plan.file['checks'][0]['type'])

    def test_own_target_of_a_monitor_speaks_what_it_says(self):
        given = document('a', tls_enabled=True)
        given['pools'][WEBS]['members'][documents.uuid_of('a')][
            'monitor_port'] = 8080
        check, = self.plan(given).file['checks']
        self.assertEqual(('http', 8080), (check['type'], check['port']))

    def test_members_of_proxy_pools_get_the_header(self):
        for protocol, expected in (('PROXY', 1), ('PROXYV2', 2),
                                   ('HTTP', None)):
            for kind in ('TCP', 'HTTP', 'HTTPS', 'TLS-HELLO', 'PING'):
                with self.subTest(f'{protocol} {kind}'):
                    check, = self.plan(document(
                        'a', kind=kind, protocol=protocol)).file['checks']
                    self.assertEqual(None if kind == 'PING' else expected,
                                     check.get('proxy_protocol'))

    def test_own_target_of_a_monitor_gets_no_header(self):
        for own in ({'monitor_port': 8080}, {'monitor_address': '198.18.1.1'}):
            given = document('a', protocol='PROXYV2')
            given['pools'][WEBS]['members'][documents.uuid_of('a')].update(own)
            check, = self.plan(given).file['checks']
            self.assertNotIn('proxy_protocol', check)

    def test_vm_behind_a_hypervisor_is_probed_by_its_token(self):
        given = document('a', tls_enabled=True)
        given['pools'][WEBS]['members'][documents.uuid_of('a')].update({
            'token': '100.64.0.1', 'monitor_address': '198.18.0.1',
            'tunnel': {'address': '198.18.20.1', 'encapsulation': 'srv6',
                       'key': 7}})
        check, = self.plan(given).file['checks']
        self.assertEqual(('https', '100.64.0.1', 80), tuple(
            check[name] for name in ('type', 'address', 'port')))

    def test_what_is_off_is_not_probed(self):
        for change in (
                lambda given: given.update(admin_state_up=False),
                lambda given: given['pools'][WEBS].update(
                    admin_state_up=False),
                lambda given: given['pools'][WEBS].update(healthmonitor=None),
                lambda given: given['pools'][WEBS]['healthmonitor'].update(
                    admin_state_up=False),
                lambda given: given['listeners'][documents.uuid_of('web')
                                                 ].update(
                    default_pool_id=None)):
            given = document('a')
            change(given)
            plan = self.plan(given)
            self.assertEqual((None, {}), (plan.file, plan.monitored))

    def test_disabled_member(self):
        given = document('a', 'b')
        given['pools'][WEBS]['members'][documents.uuid_of('a')][
            'admin_state_up'] = False
        plan = self.plan(given)
        self.assertEqual({documents.uuid_of('b')}, set(plan.monitored))
        self.assertEqual({documents.uuid_of('a')}, plan.disabled)


class TestStates(base.TestCase):

    def setUp(self):
        super().setUp()
        self.states = states.States()
        self.plan('a', 'b')

    def plan(self, *names, results=(), **pool):
        self.plans = {'lb': members.plan(document(*names, **pool),
                                         checks.UNKEYED)}
        self.states.plan(self.plans, dict(results))

    def key(self, name):
        return self.plans['lb'].monitored[documents.uuid_of(name)]

    def take(self, name, state, verified=True):
        return self.states.take({self.key(name): verdict(state, verified)})

    def reported(self):
        return [self.states.reported('lb')[documents.uuid_of(name)]
                for name in ('a', 'b')]

    def test_changes_are_told_once(self):
        self.assertEqual(['unknown', 'unknown'], self.reported())
        self.assertEqual({'lb'}, self.take('a', DOWN))
        self.assertEqual(set(), self.take('a', DOWN))
        self.assertEqual(set(), self.take('b', UNKNOWN))
        self.assertEqual(set(), self.states.take({7: verdict(DOWN)}))
        self.assertEqual(['down', 'unknown'], self.reported())
        self.assertEqual({documents.uuid_of('a')}, self.states.down('lb'))
        self.assertEqual({'lb'}, self.take('a', UP))
        self.assertEqual(['up', 'unknown'], self.reported())

    def test_result_that_no_probe_confirms_changes_no_other(self):
        self.take('a', DOWN)
        self.take('a', UP, verified=False)
        self.take('b', DOWN, verified=False)
        self.assertEqual(['down', 'down'], self.reported())

    def test_unknown_result_keeps_the_last_one(self):
        self.take('a', DOWN)
        self.take('a', UNKNOWN)
        self.assertEqual(['down', 'unknown'], self.reported())

    def test_results_are_there_before_the_plan(self):
        key = self.key('a')
        self.plan('b')
        self.assertEqual(frozenset(), self.states.down('lb'))
        self.plan('a', 'b', results={key: verdict(DOWN)})
        self.assertEqual(['down', 'unknown'], self.reported())

    def test_what_haproxy_is_told(self):
        a, b = documents.uuid_of('a'), documents.uuid_of('b')
        self.assertEqual({}, self.states.wanted('lb'))
        self.take('a', DOWN)
        self.assertEqual({a: True}, self.states.wanted('lb'))
        self.take('b', UP)
        self.assertEqual({a: True, b: False}, self.states.wanted('lb'))
        self.plan('a', 'b', healthmonitor=None)
        self.assertEqual({a: False, b: False}, self.states.wanted('lb'))
        self.assertEqual({}, self.states.wanted('other'))
