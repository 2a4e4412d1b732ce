# SPDX-License-Identifier: Apache-2.0
"""Both tiers: a client, two LB nodes, two proxy nodes, and two web servers.

    client --- r === lb1, lb2       r routes VIPs by both LB nodes, and
               | === proxy1, proxy2 everything else to where it is
               |---- web1, web2

LB nodes and proxies take their parts of one document, as controllers store it.
"""

import contextlib
import http.client
import http.server
import os
import socket
import threading
import uuid

from lab import namespaces
from lab import paths
from lab import processes
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import views
from octavia_xdp_provider.tests.functional.support import hosts
from octavia_xdp_provider.tests.functional.support import private_node
from octavia_xdp_provider.tests.functional.support import proxy_node
from octavia_xdp_provider.tests.functional.support import whole_node

ROUTER, CLIENT = 'r', 'client'
NODES, PROXIES, WEBS = ('lb1', 'lb2'), ('proxy1', 'proxy2'), ('web1', 'web2')
VIP, VIP6 = '203.0.113.10', '2001:db8:f::10'
VIP_NETWORKS = ('203.0.113.0/24', '2001:db8:f::/64')
PORT = 80
# Host → network of each family; r is the first there, the host the second.
NETWORKS = {
    CLIENT: ('192.0.2.', '2001:db8:c::'),
    'lb1': ('198.51.101.', '2001:db8:1::'),
    'lb2': ('198.51.102.', '2001:db8:2::'),
    'proxy1': ('198.51.111.', '2001:db8:11::'),
    'proxy2': ('198.51.112.', '2001:db8:12::'),
    'web1': ('198.18.1.', '2001:db8:21::'),
    'web2': ('198.18.2.', '2001:db8:22::')}


def address(host, family=4):
    return NETWORKS[host][family == 6] + '2'


def identity(name):
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def document(protocol='HTTP', **pool):
    """Return a load balancer with a listener, whose members are the webs."""
    return spec.document(identity('lb'), {
        'vip_address': VIP, 'additional_vips': [{'ip_address': VIP6}],
        'flavor': {},
        'listeners': {identity('listener'): {
            'protocol': protocol, 'protocol_port': PORT,
            'default_pool_id': identity('pool')}},
        'pools': {identity('pool'): {
            'protocol': protocol, 'lb_algorithm': 'ROUND_ROBIN',
            'members': {identity(web): {
                'address': address(web), 'protocol_port': PORT}
                for web in WEBS}, **pool}}})


def proxied(wanted, **weights):
    """Return the document once all proxies serve its listeners.

    :param weights: of proxies, if they are not 1.
    """
    return {**wanted, 'proxies': {
        'nodes': {proxy: {'addresses': [address(proxy)],
                          'weight': weights.get(proxy, 1)}
                  for proxy in PROXIES},
        'listeners': list(wanted['listeners'])}}


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers with its host's name and the address that it was asked from."""

    protocol_version = 'HTTP/1.1'

    def do_GET(self):
        source = self.client_address[0].removeprefix('::ffff:')
        text = f'{self.server.web} {source}'.encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class _Web(http.server.ThreadingHTTPServer):

    address_family = socket.AF_INET6
    daemon_threads = True

    def handle_error(self, *_):
        """A HAProxy that is killed resets its connections."""


class TierBed(hosts.HostsCase):
    """Needs root. ``nodes`` and ``proxies``: by name."""

    def setUp(self):
        super().setUp()
        for path in (private_node.library_path(), proxy_node.TOOL,
                     paths.HEALTH_CHECKER, proxy_node.HAPROXY):
            if not os.path.exists(path):
                self.skipTest(f'{path} is not there')
        self.add_hosts(ROUTER)
        for host, networks in NETWORKS.items():
            self.add_behind(ROUTER, host, *(
                (f'{network}2', f'{network}1') for network in networks))
            self.fill_in(host, 'eth0', 'gro', 'off')
            self.fill_in(ROUTER, host, 'gro', 'off')
        namespaces.sysctl(self.lab, ROUTER, net__ipv4__ip_forward=1,
                          net__ipv6__conf__all__forwarding=1,
                          net__ipv4__fib_multipath_hash_policy=1,
                          net__ipv6__fib_multipath_hash_policy=1)
        self.mount_bpffs()
        # veth takes frames of XDP where the other end has a program, too: one
        # without services passes all.
        router = self.open(ROUTER)
        with namespaces.inside(self.lab, ROUTER):
            for name in (*NODES, *PROXIES):
                router.attach(socket.if_nametoindex(name))
        self.route(*NODES)
        networks = [f'{NETWORKS[node][0]}0/24' for node in NODES]
        others = [f'{NETWORKS[proxy][0]}0/24' for proxy in PROXIES]
        self.proxies = {
            name: proxy_node.ProxyNode(self, name, 70001 + place,
                                       VIP_NETWORKS, networks, others)
            for place, name in enumerate(PROXIES)}
        self.nodes = {name: whole_node.WholeNode(self, name, VIP_NETWORKS)
                      for name in NODES}
        for web in WEBS:
            self._start_web(web)

    def prepare_webs(self):
        """Make the webs members that LB nodes reach themselves."""
        for web in WEBS:
            processes.run(self.lab, web, [
                str(proxy_node.TOOL), 'setup', '--vip', VIP, '--vip', VIP6,
                '--sysctl', *(word for node in NODES for word in (
                    '--node', f'{NETWORKS[node][0]}0/24')), 'eth0'])

    def route(self, *nodes):
        """Have the router spread packets to VIPs over these LB nodes."""
        for family, network in zip((4, 6), VIP_NETWORKS, strict=True):
            self.ip(ROUTER, 'route', 'replace', network, *(
                word for node in nodes
                for word in ('nexthop', 'via', address(node, family))))

    def _start_web(self, name):
        with namespaces.inside(self.lab, name):
            server = _Web(('::', PORT), _Handler)
        server.web = name
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)

    def serve(self, wanted):
        """Serve a document by both tiers."""
        for proxy in self.proxies.values():
            proxy.serve(wanted)
        self.apply(wanted)

    def apply(self, wanted):
        view = spec.for_node(views.for_lb_node(wanted))
        for node in self.nodes.values():
            node.apply([view])

    def wait_up(self, *expected):
        """Wait until these hosts are what LB nodes send new flows to."""
        wanted = {address(host) for host in expected}
        self.wait(f'{expected} up', lambda: all(
            node.members(vip, PORT) == wanted
            for node in self.nodes.values() for vip in (VIP, VIP6)))

    def connect(self, vip=VIP, host=CLIENT):
        with namespaces.inside(self.lab, host):
            return socket.create_connection((vip, PORT), self.SOON)

    def get(self, vip=VIP):
        """Return the names of the web and of the host that asked it.

        :raises OSError: there is no answer.
        """
        with contextlib.closing(self.open_client(vip)) as client:
            return self.ask(client)

    def open_clients(self, count):
        """Return connections, each to one of the VIPs."""
        clients = [self.open_client((VIP, VIP6)[number % 2])
                   for number in range(count)]
        for client in clients:
            self.addCleanup(client.close)
        return clients

    def open_client(self, vip=VIP):
        client = http.client.HTTPConnection(vip, PORT)
        client.sock = self.connect(vip)
        # It must never connect by itself.
        client.auto_open = 0
        return client

    def ask(self, client):
        """The same on a connection that is there."""
        client.request('GET', '/')
        answer = client.getresponse()
        web, source = answer.read().decode().split()
        return web, next((host for host in NETWORKS if source in (
            address(host), address(host, 6))), source)
