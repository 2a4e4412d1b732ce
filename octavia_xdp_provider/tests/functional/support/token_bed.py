# SPDX-License-Identifier: Apache-2.0
"""Hypervisors with the product's programs, whose VMs proxies reach by tokens.
"""

import http.server
import os
import socket
import threading
import uuid

from lab import namespaces
from octavia_xdp_provider.host import datapath
from octavia_xdp_provider.host import types
from octavia_xdp_provider.tests.functional.support import hypervisor
from octavia_xdp_provider.tests.functional.support import private_node

# All VMs have one address.
FIXED, PORT = hypervisor.FIXED, 80
# Of all tokens.
NETWORK = '100.64.0.0/10'


class _Answers(http.server.BaseHTTPRequestHandler):
    """Answer with the VM's name and the body of the request."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        self.send_response(200)
        self.send_header('X-Name', self.server.name)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


class HypervisorsMixin:
    """For a HostsCase with a BPF file system."""

    def skip_without_programs(self):
        for path in (hypervisor.LIBRARY, private_node.library_path()):
            if not os.path.exists(path):
                self.skipTest(f'{path} is not built (make -C datapath)')
        if tuple(map(int, os.uname().release.split('.')[:2])) < (6, 6):
            self.skipTest('tcx is not in this kernel')

    def start_hypervisor(self, name, address, key, token, proxies):
        """Make a host a hypervisor with a VM that serves HTTP.

        :param address: of the host on its eth0.
        :param key: of the entry for the token.
        :param proxies: network of the proxies, the only ones let in.
        :returns: the datapath, the port's id and the tap's index.
        """
        vm, port = f'vm{name}', str(uuid.UUID(int=key << 96))
        self.add_hosts(vm)
        namespaces.veth(self.lab, (name, 'tap0'), (vm, 'eth0'))
        namespaces.address(self.lab, vm, 'eth0', f'{FIXED}/24')
        self.fill_in(vm, 'eth0', 'gro', 'off')
        self.ip(vm, 'route', 'add', 'default', 'via',
                hypervisor.SUBNET_GATEWAY)
        self.ip(vm, 'neigh', 'add', hypervisor.SUBNET_GATEWAY, 'dev', 'eth0',
                'lladdr', hypervisor.ROUTER_MAC)
        self._serve(vm, name)
        folder, library = str(self.bpffs / name), str(hypervisor.LIBRARY)
        datapath.Datapath.create(folder, types.Sizes(64, 8, 4096, 4096),
                                 library)
        self.addCleanup(datapath.Datapath.remove, folder, library)
        host = datapath.Datapath(folder, library)
        self.addCleanup(host.close)
        with namespaces.inside(self.lab, name):
            nic, tap = map(socket.if_nametoindex, ('eth0', 'tap0'))
            host.set_settings(types.Settings(nic, address))
            host.set_networks(['198.18.0.0/24'])
            host.set_proxies([proxies])
            host.set_port(types.Port(port, tap), (
                types.Rule(4, 'tcp', (PORT, PORT), proxies),))
            host.set_entry(self.entry(vm, port, key, token))
            for hook, index in ((types.Hook.NIC, nic),
                                (types.Hook.TAP_IN, tap),
                                (types.Hook.TAP_OUT, tap)):
                host.attach(hook, index)
        return host, port, tap

    def entry(self, vm, port, key, token):
        return types.Entry(key, port, token, PORT, FIXED, PORT, 'tcp',
                           self.mac(vm, 'eth0'), hypervisor.ROUTER_MAC, 1400)

    def _serve(self, vm, name):
        with namespaces.inside(self.lab, vm):
            server = http.server.ThreadingHTTPServer((FIXED, PORT), _Answers)
        server.daemon_threads = True
        server.name = name
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
