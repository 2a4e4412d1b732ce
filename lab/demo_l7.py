# SPDX-License-Identifier: Apache-2.0
"""The demonstration of layer 7: proxy nodes behind the LB nodes' VIPs.

A tenant's load balancer with an HTTP listener, L7 policies and cookies serves
requests while members, policies, HAProxy processes, proxy nodes and LB nodes
change or fail. Every step is recorded in build/demo-l7.json.
"""

import os
import signal
import time

from lab import cloud
from lab import demo_steps
from lab import deployment
from lab import namespaces
from lab import paths
from lab import processes
from lab import surroundings
from lab.control import octavia
from lab.fabric import client
from lab.fabric import http
from lab.fabric import members
from lab.fabric import nginx
from lab.fabric import nodes
from lab.fabric import proxies
from lab.fabric import router
from lab.fabric import topology

REPORT = paths.BUILD / 'demo-l7.json'
BALANCER, LISTENER = 'shop', 'shop-http'
POOL, API_POOL = 'shop-servers', 'shop-api'
SERVERS, API_SERVER, SPARE = (topology.MEMBERS[:2], topology.MEMBERS[2],
                              topology.MEMBERS[3])
PROXIES = 2
HEADERS = ('X-Forwarded-For', 'X-Forwarded-Port', 'X-Forwarded-Proto')
REDIRECTED = 'https://www.example.com'
TIMEOUT_S = 120
LOG_S = 10  # until a server has logged its answers
# A node that dies is out within this time.
OUT_S = 2

_expect = demo_steps.expect


class Demo(demo_steps.Steps):
    """A load balancer of HTTP, two proxy nodes, two LB nodes."""

    def __init__(self, lab, keep):
        super().__init__(lab, REPORT)
        self.keep = keep
        self.vip = None

    def check(self):
        surroundings.check(self.lab, proxies.PROGRAMS)

    def run(self):
        """Run all steps.

        :raises demo_steps.StepFailed: a step failed.
        """
        self.step('bring up control host, fabric, LB nodes and proxy nodes',
                  lambda: deployment.up(self.lab, proxies=PROXIES))
        self.step('create a load balancer with an HTTP listener', self.create)
        self.step('L7 policies: by path to another pool, and a redirection',
                  self.create_policies)
        self.step('wait for ACTIVE and ONLINE', self.wait_online)
        self.step('1,000 requests', self.thousand_requests)
        self.step('servers log the client\'s address', self.check_log)
        self.step('requests are judged by path', self.check_policies)
        self.step('a cookie keeps a client at its server', self.check_cookie)
        for name, change in (
                ('a member is added and removed', self.change_members),
                ('a policy is added and removed', self.change_policies),
                ('a proxy node is drained, and enabled again',
                 self.drain_proxy)):
            self.step(f'under requests, {name}', lambda change=change:
                      self.undisturbed(change))
        self.step('under requests, HAProxy is killed on each proxy node',
                  self.kill_haproxy)
        self.step('under requests, a proxy node loses its power',
                  self.lose_proxy)
        self.step('under requests, an LB node is stopped, and started again',
                  lambda: self.undisturbed(self.stop_node))
        if not self.keep:
            self.step('delete the load balancer', self.delete)

    # The tenant's commands

    def create(self):
        self.vip = self.openstack(
            'loadbalancer', 'create', '--name', BALANCER, '--provider', 'xdp',
            '--vip-subnet-id', 'vips-v4', '--wait', '-f', 'value', '-c',
            'vip_address')
        self.object('listener', LISTENER, BALANCER, '--protocol', 'HTTP',
                    '--protocol-port', '80', '--insert-headers',
                    ','.join(f'{header}=true' for header in HEADERS))
        self.object('pool', POOL, '--listener', LISTENER, '--protocol',
                    'HTTP', '--lb-algorithm', 'ROUND_ROBIN',
                    '--session-persistence', 'type=HTTP_COOKIE')
        self.object('healthmonitor', 'shop-monitor', POOL, '--type', 'HTTP',
                    '--url-path', '/', '--delay', '1', '--timeout', '1',
                    '--max-retries', '2')
        for server in SERVERS:
            self.create_member(server, POOL)
        return f'VIP {self.vip}'

    def object(self, kind, name, *words):
        """Create an object below the load balancer."""
        # Its parent, if it is no option, comes last.
        parent = () if words[0].startswith('-') else words[:1]
        return self.openstack(
            'loadbalancer', kind, 'create', '--name', name,
            *words[len(parent):], '--wait', '-f', 'value', '-c',
            'provisioning_status', *parent)

    def create_member(self, server, pool):
        self.object('member', server, pool, '--address',
                    members.address(server), '--protocol-port', '80')

    def create_policies(self):
        self.object('pool', API_POOL, '--loadbalancer', BALANCER,
                    '--protocol', 'HTTP', '--lb-algorithm', 'ROUND_ROBIN')
        self.create_member(API_SERVER, API_POOL)
        self.create_policy('to-api', '/api', '--action', 'REDIRECT_TO_POOL',
                           '--redirect-pool', API_POOL)
        self.create_policy('moved', '/moved', '--action', 'REDIRECT_PREFIX',
                           '--redirect-prefix', REDIRECTED)

    def create_policy(self, name, path, *words):
        self.object('l7policy', name, LISTENER, *words)
        self.openstack(
            'loadbalancer', 'l7rule', 'create', '--type', 'PATH',
            '--compare-type', 'STARTS_WITH', '--value', path, '--wait', '-f',
            'value', '-c', 'provisioning_status', name)

    def wait_online(self):
        with namespaces.inside(self.lab, paths.CONTROL):
            sdk = cloud.connect(self.lab).load_balancer
            processes.wait_for(
                'an ACTIVE and ONLINE load balancer',
                lambda: _status(sdk) == ('ACTIVE', 'ONLINE'), TIMEOUT_S, 0.5)
        processes.wait_for(
            'a route through both LB nodes',
            lambda: len(self.next_hops()) == len(topology.NODES), 30)
        processes.wait_for('answers', self.is_answered, 30)
        return f'{self.vip}/32 via {", ".join(self.next_hops())}'

    def next_hops(self):
        return router.next_hops(self.lab, self.vip)

    # Requests

    def url(self, path='/'):
        return f'http://{self.vip}{path}'

    def ask(self, path, *options):
        return http.ask(self.lab, self.url(path), *options)

    def is_answered(self):
        answers = client.requests(self.lab, self.url(), 20, 2)
        return not answers.failures and set(answers.count) == {*SERVERS}

    def thousand_requests(self):
        answers = client.requests(self.lab, self.url(), 1000)
        _expect(not answers.failures,
                f'{len(answers.failures)} of 1000 requests failed, first: '
                f'{"".join(answers.failures[:1])}')
        _expect(set(answers.count) == {*SERVERS},
                f'only {sorted(answers.count)} answered')
        return f'all answered; {dict(sorted(answers.count.items()))}'

    def check_log(self):
        def logged():
            return all(f'"{paths.CLIENT_ADDRESS}"' in text for text in (
                nginx.access_log(self.lab, server).read_text()
                for server in SERVERS))
        processes.wait_for('the client\'s address in the servers\' logs',
                           logged, LOG_S)
        shown = http.shown(self.ask('/headers'))
        expected = {'X-Forwarded-For': paths.CLIENT_ADDRESS,
                    'X-Forwarded-Port': '80', 'X-Forwarded-Proto': 'http'}
        seen = {name: shown[name] for name in HEADERS}
        _expect(seen == expected, f'a server was told {seen}')
        return f'{seen}, by the proxy node {shown["peer"]}'

    def check_policies(self):
        api = self.ask('/api/orders')
        _expect(api.body == f'{API_SERVER}\n', f'/api was answered: {api}')
        moved = self.ask('/moved/a?b=c&d=e')
        location = moved.headers.get('location')
        _expect((moved.status, location)
                == (302, f'{REDIRECTED}/moved/a?b=c&d=e'),
                f'/moved was answered: {moved}')
        return f'/api by {API_SERVER}; /moved by {moved.status}, {location}'

    def check_cookie(self):
        first = self.ask('/headers')
        cookie = first.headers.get('set-cookie', '').partition(';')[0]
        _expect(cookie, f'there is no cookie: {first}')
        seen = [http.shown(self.ask('/headers', '-H', f'Cookie: {cookie}'))
                for _ in range(40)]
        servers = {shown['member'] for shown in seen}
        peers = {shown['peer'] for shown in seen}
        _expect(servers == {http.shown(first)['member']},
                f'{sorted(servers)} answered')
        _expect(len(peers) == PROXIES, f'all by proxy node {sorted(peers)}')
        return f'{len(seen)} requests by {PROXIES} proxy nodes to {servers}'

    # Changes and failures

    def load(self):
        return client.Load(self.lab, self.url(), timeout=OUT_S, pause=0.01)

    def undisturbed(self, change):
        """Change something under requests, none of which may fail."""
        with self.load() as load:
            _wait_answers(load)
            change()
            _wait_answers(load)
        _expect(not load.answers.failures,
                f'{len(load.answers.failures)} of {load.answers.total} '
                f'requests failed: {load.answers.failures[:3]}')
        return f'{load.answers.total} requests, none failed'

    def change_members(self):
        self.create_member(SPARE, POOL)
        processes.wait_for('its answers', lambda: self.answers_from(SPARE),
                           TIMEOUT_S)
        self.openstack('loadbalancer', 'member', 'delete', '--wait', POOL,
                       SPARE)

    def answers_from(self, server):
        return server in client.requests(self.lab, self.url(), 12, 2).count

    def change_policies(self):
        self.create_policy('closed', '/closed', '--action', 'REJECT')
        processes.wait_for('the rejection', lambda: self.ask(
            '/closed').status == 403, TIMEOUT_S)
        self.openstack('loadbalancer', 'l7policy', 'delete', '--wait',
                       'closed')
        processes.wait_for('its end', lambda: self.ask(
            '/closed').status == 404, TIMEOUT_S)

    def drain_proxy(self):
        node = proxies.NAMES[0]
        for verb, number in (('drain', PROXIES - 1), ('enable', PROXIES)):
            octavia.manage(self.lab, 'node', verb, node)
            processes.wait_for(
                f'{number} proxy nodes that answer',
                lambda number=number: len(self.peers()) == number, TIMEOUT_S)

    def peers(self):
        """Addresses of the proxy nodes that requests go through."""
        return {http.shown(self.ask('/headers'))['peer'] for _ in range(16)}

    def kill_haproxy(self):
        killed = 0
        with self.load() as load:
            _wait_answers(load)
            for node in proxies.NAMES[:PROXIES]:
                for identity, state in proxies.states(self.lab, node).items():
                    os.kill(state['pid'], signal.SIGKILL)
                    killed += 1
                    processes.wait_for(
                        'another HAProxy',
                        lambda node=node, identity=identity, state=state: (
                            proxies.states(self.lab, node)[identity][
                                'restarts'] > state['restarts']), 30)
            _wait_answers(load)
        broken = load.answers.failures
        _expect(len(broken) <= killed, f'{len(broken)} requests failed when '
                f'{killed} processes died: {broken[:3]}')
        return (f'{load.answers.total} requests, {len(broken)} broken that '
                f'the {killed} processes were serving, none refused')

    def lose_proxy(self):
        node = proxies.NAMES[1]
        with self.load() as load:
            _wait_answers(load)
            lost_at = time.monotonic()
            proxies.lose(self.lab, node)
            processes.wait_for('one proxy node', lambda: _has_settled(load),
                               30)
        late = [at - lost_at for at in load.times if at > lost_at + OUT_S]
        _expect(not late, f'requests that began {late} s later failed')
        proxies.restore(self.lab, node)
        processes.wait_for('both proxy nodes', lambda: len(
            self.peers()) == PROXIES, TIMEOUT_S)
        return (f'{load.answers.total} requests, {len(load.times)} failed, '
                f'all of which had begun within {OUT_S} s; it is back')

    def stop_node(self):
        node = topology.NODES[1]
        nodes.stop(self.lab, node)
        processes.wait_for('one LB node', lambda: len(
            self.next_hops()) == 1, 30)
        nodes.start(self.lab, node)
        processes.wait_for('both LB nodes', lambda: len(
            self.next_hops()) == len(topology.NODES), 60)

    def delete(self):
        self.openstack('loadbalancer', 'delete', '--cascade', '--wait',
                       BALANCER)
        _expect(not self.next_hops(),
                f'the route is still there: {self.next_hops()}')
        left = [node for node in proxies.NAMES[:PROXIES]
                if proxies.processes_of(self.lab, node)]
        _expect(not left, f'HAProxy still runs on {left}')
        return f'no route to {self.vip}, and no HAProxy'


def _wait_answers(load, number=50):
    """Wait for so many more answers."""
    wanted = load.answers.total + number
    processes.wait_for(f'{number} answers',
                       lambda: load.answers.total >= wanted, 60)


def _has_settled(load):
    """Return whether no request has failed for some time."""
    began = load.times[-1:] or [0]
    return time.monotonic() - began[0] > 2 * OUT_S and (
        load.answers.total > 100)


def _status(sdk):
    balancer = sdk.find_load_balancer(BALANCER)
    return balancer.provisioning_status, balancer.operating_status
