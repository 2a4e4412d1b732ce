# SPDX-License-Identifier: Apache-2.0
"""Health and statistics of load balancers, with real HAProxy processes."""

import os
import signal
import urllib.error
import urllib.request

from prometheus_client import parser

from octavia_xdp_provider.proxy.runtime import answers
from octavia_xdp_provider.tests.functional.support import haproxy
from octavia_xdp_provider.tests.functional.support import proxy_runtime
from octavia_xdp_provider.tests.support import proxied as documents

WEB, WEBS = proxy_runtime.WEB, proxy_runtime.WEBS
M1 = documents.uuid_of('m1')


class Health(proxy_runtime.RuntimeCase):

    def test_member_is_out_at_once_and_in_again(self):
        document = self.monitored('m1', 'm2')
        proxy = self.serve(document)
        self.assertEqual({M1: 'unknown', documents.uuid_of('m2'): 'unknown'},
                         self.runtime.states(document['id']))
        self.assertEqual({'m1', 'm2'}, self.answer_names(proxy))
        self.result(document, 'm1', False)
        self.wait('m1 is out', lambda: self.answer_names(proxy) == {'m2'})
        self.assertEqual('down', self.runtime.states(document['id'])[M1])
        self.assertEqual({M1}, self.runtime.down(document['id']))
        self.assertTrue(self.wakeups.acquire(timeout=self.SOON))
        self.assertEqual({document['id']}, self.runtime.changed())
        self.assertEqual(set(), self.runtime.changed())
        self.result(document, 'm1', True)
        self.wait('m1 is in', lambda: self.answer_names(proxy) == {
            'm1', 'm2'})
        self.assertEqual('up', self.runtime.states(document['id'])[M1])

    def test_reload_with_an_old_file_brings_no_member_back(self):
        document = self.monitored('m1', 'm2')
        proxy = self.serve(document)
        self.result(document, 'm1', False)
        self.result(document, 'm2', True)
        self.wait('m1 is out', lambda: self.answer_names(proxy) == {'m2'})
        # The file was made while m1 was up, and the next while m2 was down.
        proxy.reload(document)
        self.wait('reload', lambda: proxy.reloads() == 1)
        self.wait('m1 is out', lambda: self.answer_names(proxy) == {'m2'})
        proxy.reload(document, down={documents.uuid_of('m2')})
        self.wait('reload', lambda: proxy.reloads() == 2)
        self.wait('m2 is in', lambda: self.states(proxy) == {
            'm1': True, 'm2': False})
        self.assertEqual({'m2'}, self.answer_names(proxy))

    def states(self, proxy):
        """Return which members the newest process gives no requests."""
        rows = answers.parse_statistics(
            proxy.runtime(f'show stat -1 {answers.SERVERS} -1'), 20)
        names = {documents.uuid_of(name): name for name in ('m1', 'm2')}
        return {names[server.name]: is_off for server, is_off
                in answers.maintenance(rows).items()}

    def test_member_of_an_unmonitored_pool_is_in(self):
        document = self.monitored('m1', 'm2')
        proxy = self.serve(document)
        self.result(document, 'm1', False)
        self.wait('m1 is out', lambda: self.answer_names(proxy) == {'m2'})
        pool = {**document['pools'][WEBS], 'healthmonitor': None}
        self.want({**document, 'pools': {WEBS: pool}})
        self.wait('m1 is in', lambda: self.answer_names(proxy) == {
            'm1', 'm2'})
        self.assertEqual({}, self.runtime.states(document['id']))

    def test_disabled_member_stays_out(self):
        document = self.monitored('m1', 'm2')
        document['pools'][WEBS]['members'][M1]['admin_state_up'] = False
        proxy = self.serve(document)
        self.result(document, 'm2', True)
        self.wait('m2 is up', lambda: 'up' in self.runtime.states(
            document['id']).values())
        self.assertEqual({'m2'}, self.answer_names(proxy))

    def test_restarted_agent_reads_results_again(self):
        document = self.monitored('m1', 'm2')
        proxy = self.serve(document)
        self.result(document, 'm1', False)
        self.wait('m1 is out', lambda: self.answer_names(proxy) == {'m2'})
        self.snapshot()
        self.restart_runtime()
        self.wait('m1 is down', lambda: self.runtime.down(document['id']))
        self.assertEqual({'m2'}, self.answer_names(proxy))
        self.result(document, 'm1', True)
        self.wait('m1 is in', lambda: self.answer_names(proxy) == {
            'm1', 'm2'})

    def test_hanging_process_delays_no_other(self):
        document = self.monitored('m1', 'm2')
        proxy = self.serve(document)
        other = {**self.monitored('m3', 'm4'),
                 'id': documents.uuid_of('other')}
        hanging = self.serve(other)
        pid = self.pid(hanging)
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(os.kill, pid, signal.SIGCONT)
        self.result(other, 'm3', False)
        self.result(document, 'm1', False)
        self.wait('m1 is out', lambda: self.answer_names(proxy) == {'m2'})
        os.kill(pid, signal.SIGCONT)
        self.wait('m3 is out', lambda: self.answer_names(hanging) == {'m4'})

    def pid(self, proxy):
        """Return the pid of the newest process."""
        return int(proxy.runtime('show info').partition('\nPid: ')[2]
                   .partition('\n')[0])


class Statistics(proxy_runtime.RuntimeCase):
    """Octavia's five, in TCP: each byte and connection is known."""

    def setUp(self):
        super().setUp()
        self.document = documents.web(members={'m1': documents.member(
            '127.0.0.1', protocol_port=proxy_runtime.start_echo(self))},
            protocol='TCP')
        self.document['pools'][WEBS]['protocol'] = 'TCP'
        self.proxy = self.serve(self.document)

    def reload(self):
        before = self.proxy.reloads()
        self.proxy.reload(self.document)
        self.wait('reload', lambda: self.proxy.reloads() == before + 1)

    def count(self, flows, octets, active):
        """Wait until the counters are these."""
        expected = {'bytes': octets, 'bytes_out': octets, 'flows': flows,
                    'active': active, 'drops': 0}
        self.wait(f'{expected}', lambda: self.counters(
            self.document) == expected)

    def short(self, octets):
        with proxy_runtime.echo_connection(self.proxy) as client:
            proxy_runtime.echo(client, bytes(octets))

    def test_counters_are_exact_over_reloads(self):
        with proxy_runtime.echo_connection(self.proxy) as kept:
            proxy_runtime.echo(kept, bytes(100))
            self.short(10)
            self.count(2, 10, 1)
            # This is counted after a look, and before a process that ends.
            self.short(20)
            self.reload()
            self.short(1000)
            self.count(4, 1030, 1)
            self.reload()
            proxy_runtime.echo(kept, bytes(9))
            self.count(4, 1030, 1)
        # HAProxy counts the octets of a connection when it ends, as does then
        # the process that had it.
        self.count(4, 1139, 0)
        self.wait('end of all before', lambda: self.proxy.workers() == 1)
        self.short(1)
        self.count(5, 1140, 0)

    def test_restarted_agent_goes_on_counting(self):
        with proxy_runtime.echo_connection(self.proxy) as old:
            self.reload()
            self.short(10)
            with proxy_runtime.echo_connection(self.proxy) as new:
                self.count(3, 10, 2)
                self.restart_runtime()
                self.count(3, 10, 2)
                proxy_runtime.echo(old, bytes(100))
                proxy_runtime.echo(new, bytes(20))
            self.count(3, 30, 1)
        self.wait('end of all before', lambda: self.proxy.workers() == 1)
        self.count(3, 30, 0)

    def test_removed_load_balancer_is_followed_to_its_end(self):
        with proxy_runtime.echo_connection(self.proxy) as kept:
            proxy_runtime.echo(kept, bytes(100))
            self.count(1, 0, 1)
            self.documents = {}
            self.runtime.want({})
            self.proxy.soft_stop()
            proxy_runtime.echo(kept, bytes(20))
        self.wait('end', lambda: not self.runtime.counters())
        self.assertEqual([], list((self.run_directory / 'health/counters'
                                   ).iterdir()))
        self.assertEqual(0, self.proxy.wait())


class Metrics(proxy_runtime.RuntimeCase):

    def test_clients_get_octavias_metrics(self):
        document = self.monitored('m1', 'm2')
        document['listeners'][documents.uuid_of('metrics')] = (
            documents.listener(protocol='PROMETHEUS', protocol_port=9090))
        proxy = self.serve(document)
        self.answer_names(proxy, 5)
        self.result(document, 'm1', False)
        self.wait('m1 is out', lambda: self.answer_names(proxy, 2) == {'m2'})
        self.wait('socket', lambda: (
            self.run_directory / 'runtime' / document['id'] / 'metrics.sock'
        ).is_socket())
        url = (f'http://127.0.0.1:'
               f'{proxy.ports[documents.uuid_of("metrics")]}/metrics')
        with urllib.request.urlopen(url, timeout=20) as answer:
            samples = {
                (sample.name, *sorted(sample.labels.items())): sample.value
                for family in parser.text_string_to_metric_families(
                    answer.read().decode()) for sample in family.samples}
        pool = ('pool', f'{WEBS}:{WEB}')
        self.assertLessEqual(7, samples[
            'octavia_listener_http_requests_total', ('listener', WEB)])
        self.assertEqual(1, samples[
            'octavia_member_status', ('member', M1), pool, ('state', 'DOWN')])
        self.assertEqual(1, samples[
            'octavia_pool_active_members', pool])
        with self.assertRaisesRegex(urllib.error.HTTPError, '404'):
            urllib.request.urlopen(url[:-1], timeout=20)  # noqa: S310


class TestDebianHealth(Health):
    program = haproxy.SYSTEM


class TestNewerHealth(Health):
    program = haproxy.other_version()


class TestDebianStatistics(Statistics):
    program = haproxy.SYSTEM


class TestNewerStatistics(Statistics):
    program = haproxy.other_version()


class TestDebianMetrics(Metrics):
    program = haproxy.SYSTEM


class TestNewerMetrics(Metrics):
    program = haproxy.other_version()


del Health, Metrics, Statistics
