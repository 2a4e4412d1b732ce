# SPDX-License-Identifier: Apache-2.0
"""Load balancers that proxy nodes serve, in a lab that has some."""

import json

from lab import paths
from lab import processes
from lab.fabric import client
from lab.fabric import http
from lab.fabric import members
from lab.fabric import proxies
from lab.fabric import topology
from octavia_xdp_provider.tests.e2e.support import base
from octavia_xdp_provider.tests.e2e.support import shared

HOSTS = topology.MEMBERS[:2]
HEADERS = ('X-Forwarded-For', 'X-Forwarded-Port', 'X-Forwarded-Proto')
NFT_TABLE = ('inet', 'octavia_xdp_proxy')


class ProxiedCase(base.LabTestCase):
    """Needs a lab with two proxy nodes."""

    def setUp(self):
        super().setUp()
        self.nodes = proxies.names(self.lab)
        if len(self.nodes) < 2:
            self.skipTest('the lab has no proxy nodes; tools/test proxies '
                          'brings one up that has')

    # The tenant

    def create_http(self, hosts=HOSTS, version=4, protocol='HTTP', port=80,
                    pool_options=None, listener_options=None):
        """A load balancer whose members are monitored by HTTP.

        :returns: (balancer, listener, pool, name → member), all ONLINE.
        """
        if protocol == 'HTTP':
            listener_options = {
                'insert_headers': dict.fromkeys(HEADERS, 'true'),
                **(listener_options or {})}
        balancer = self.create_balancer(version, listeners=self.listeners(
            ({'name': host, 'protocol_port': 80,
              'address': members.address(host, version)} for host in hosts),
            port, protocol, 'HTTP',
            {'lb_algorithm': 'ROUND_ROBIN', **(pool_options or {})},
            listener_options))
        listener, = self.sdk.listeners(load_balancer_id=balancer.id)
        pool = self.sdk.get_pool(listener.default_pool_id)
        made = {member.name: member for member in self.sdk.members(pool)}
        self.wait_routes(balancer)
        self.wait_statuses(pool, dict.fromkeys(hosts, 'ONLINE'))
        self.wait_proxies(balancer, len(self.nodes), port)
        return balancer, listener, pool, made

    def wait_proxies(self, balancer, number, port=80):
        """Wait until LB nodes send flows to so many proxy nodes."""
        self.wait_enabled(balancer, number, 'TCP', port)

    # Requests

    def ask(self, balancer, path='/', *options, port=80):
        """Send a request on a connection of its own."""
        return http.ask(self.lab, f'{self.url(balancer, port)}{path[1:]}',
                        *options)

    def ask_headers(self, balancer, *options):
        """What a member says of a request that it was sent."""
        return http.shown(self.ask(balancer, '/headers', *options))

    def check_requests(self, balancer, hosts=HOSTS, number=40, port=80):
        """All requests are answered, and by just these members."""
        answers = client.requests(self.lab, self.url(balancer, port), number)
        self.assertEqual([], answers.failures)
        self.assertEqual(set(hosts), set(answers.count))
        return answers.count

    def answering(self, balancer, number=8):
        """The members that answer some requests."""
        return set(client.requests(self.lab, self.url(balancer),
                                   number).count)

    # The proxy nodes

    def processes_of(self, balancer):
        """Proxy node → ids of the HAProxy processes of a load balancer."""
        return {node: running for node in self.nodes if (
            running := proxies.processes_of(self.lab, node).get(balancer.id))}

    def state(self, node, balancer):
        return proxies.states(self.lab, node).get(balancer.id, {})

    def remains(self, balancer):
        """Names of all that proxy nodes have of a load balancer."""
        remaining = [f'process of {node}'
                     for node in self.processes_of(balancer)]
        for node in self.nodes:
            run = proxies.run_directory(self.lab, node)
            remaining += [str(path) for path in run.rglob(f'*{balancer.id}*')]
            remaining += [f'{node}: {line}' for line in self.local_routes(node)
                      if balancer.vip_address in line.split()]
        return remaining

    def local_routes(self, node):
        """Routes by which a traffic namespace accepts packets to VIPs."""
        return processes.run(
            self.lab, proxies.traffic(node),
            ['sh', '-c', 'ip route show table local proto 188; '
             'ip -6 route show table local proto 188']).stdout.splitlines()

    def allowed(self, node):
        """What HAProxy processes of a node may connect to: {(uid, address,
        port)}."""
        listed = json.loads(processes.run(
            self.lab, proxies.traffic(node),
            ['nft', '--numeric', '-j', 'list', 'table', *NFT_TABLE]).stdout)
        return {tuple(element['concat']) for item in listed['nftables']
                for element in item.get('set', {}).get('elem', ())}

    def lost(self, node):
        """Lose a proxy node until the test is over."""
        self.addCleanup(proxies.restore, self.lab, node)
        proxies.lose(self.lab, node)


class SharedCase(shared.Shared, ProxiedCase):
    """A load balancer of HTTP for all tests of the class."""

    OPTIONS = {}

    def setUp(self):
        super().setUp()
        self.balancer, self.listener, self.pool, self.made = self.shared

    def share(self):
        self.nodes = proxies.names(self.lab)
        return self.create_http(**self.OPTIONS)

    @property
    def proxy_addresses(self):
        version = 6 if ':' in self.balancer.vip_address else 4
        return {proxies.address(node, version) for node in self.nodes}

    @property
    def client_address(self):
        return (paths.CLIENT_ADDRESS_V6 if ':' in self.balancer.vip_address
                else paths.CLIENT_ADDRESS)
