# SPDX-License-Identifier: Apache-2.0
"""Checks between the phases of a trial of DevStack's plugin."""

import json
import math
import time

from lab import cloud
from lab import namespaces
from lab import paths
from lab import processes
from lab.control import octavia
from lab.control import rabbitmq
from lab.demo_steps import expect
from lab.devstack import services
from lab.fabric import capture
from lab.fabric import client
from lab.fabric import members
from lab.fabric import nodes
from lab.fabric import router
from lab.fabric import topology

BALANCER = 'devstack'
MEMBERS = topology.MEMBERS[:2]
TIMEOUT_S = 180


class Checks:
    """Checks of a trial's hosts."""

    def __init__(self, trial):
        self.lab = trial.lab
        self.first = trial.first
        self.second = trial.second
        self.compute = trial.compute
        self.vip = None

    def restart_octavia(self):
        """Restart Octavia, as its plugin does in the phase extra."""
        for name in octavia.API, octavia.DRIVER_AGENT:
            processes.stop(self.lab, name, timeout=60)
        octavia.start_api(self.lab, self.first.configuration)
        octavia.start_driver_agent(self.lab)
        with namespaces.inside(self.lab, paths.CONTROL):
            providers = [provider.name for provider in self._load_balancers(
                cloud.ADMIN).providers()]
        expect(octavia.XDP in providers, f'providers are {providers}')
        return f'providers {", ".join(sorted(providers))}'

    def nodes_report(self):
        """Check that services run, BGP sessions are up, and nodes report."""
        wanted = ['o-xdp-ctl', *(
            f'o-xdp-{kind}-{node}' for node in topology.NODES
            for kind in ('agent', 'handler', 'hc', 'exabgp'))]
        expect(self.first.running() == sorted(wanted),
               f'running: {self.first.running()}')
        self._sessions(topology.NODES)
        self._reporting(topology.NODES)
        return f'{len(wanted)} services; both LB nodes have a BGP session'

    def traffic(self):
        """Create a tenant's load balancer with a flavor, and use it."""
        own = self.first.own
        with namespaces.inside(self.lab, paths.CONTROL):
            network = cloud.connect(self.lab, cloud.ADMIN).network
            subnet = network.find_subnet('xdp-vips-v4')
            sdk = self._load_balancers()
            flavor = sdk.find_flavor('xdp')
            load_balancer = sdk.create_load_balancer(
                name=BALANCER, vip_subnet_id=subnet.id,
                provider=octavia.XDP, flavor_id=flavor.id,
                listeners=[{
                    'protocol': 'TCP', 'protocol_port': 80,
                    'default_pool': {
                        'name': BALANCER, 'protocol': 'TCP',
                        'lb_algorithm': 'SOURCE_IP_PORT',
                        'members': [{
                            'address': members.address(member),
                            'protocol_port': 80} for member in MEMBERS]}}])
            self.vip = load_balancer.vip_address
            processes.wait_for(
                'ACTIVE load balancer', lambda: sdk.get_load_balancer(
                    load_balancer).provisioning_status == 'ACTIVE', TIMEOUT_S)
        members.add_vip(own, self.vip, MEMBERS)
        self._routed_through(topology.NODES)
        answers = client.requests(own, f'http://{self.vip}/', 100)
        expect(not answers.failures, f'{len(answers.failures)} of 100 '
               f'requests failed: {"".join(answers.failures[:1])}')
        expect(set(answers.count) == set(MEMBERS), f'{answers.count}')
        return f'100 requests answered: {dict(answers.count)}'

    def second_node(self):
        """Check that the second host's LB node gets VIPs and packets."""
        wanted = ['o-xdp-host', *(f'o-xdp-{kind}-lb3' for kind in (
            'agent', 'exabgp', 'handler', 'hc'))]
        expect(self.second.running() == sorted(wanted),
               f'running: {self.second.running()}')
        self._sessions((*topology.NODES, 'lb3'))
        self._reporting(('lb3',))
        self._manage('node', 'drain', 'lb1', '--wait')
        self._routed_through(('lb2', 'lb3'))
        before = capture.packets_to(self.first.own, 'lb3')
        answers = client.requests(self.first.own, f'http://{self.vip}/', 200)
        expect(not answers.failures, f'{len(answers.failures)} of 200 '
               f'requests failed: {"".join(answers.failures[:1])}')
        through = capture.packets_to(self.first.own, 'lb3') - before
        expect(through > 100, f'{through} packets through lb3')
        self._manage('node', 'enable', 'lb1')
        self._manage('node', 'drain', 'lb3', '--wait')
        self._routed_through(topology.NODES)
        return f'200 requests answered, {through} packets through lb3'

    def hypervisor(self, name, host, *nodes_there):
        """Check that the second hypervisor's agent reports, and that LB nodes
        reach its address with packets that nearly fill the tunnel."""
        running = host.running()
        expect('o-xdp-host' in running and len(running) == 1 + len(
            nodes_there) * len(services.KINDS), f'running: {running}')
        begin = time.monotonic()
        processes.wait_for(
            f'a report of {name}',
            lambda: self._silence(name) < time.monotonic() - begin,
            TIMEOUT_S, 1)
        for own, node in ((self.first.own, topology.NODES[0]),
                          *((host.own, node) for node in nodes_there)):
            for version in 4, 6:
                address = paths.hypervisor_address(2, version)
                processes.run(own, node, ['ping', '-n', '-c', '1', '-w', '20',
                                          '-M', 'do', '-s', '1400', address])
        return (f'{name} reports; LB nodes of {1 + len(nodes_there)} hosts '
                'reach it')

    def _silence(self, name):
        """Return the seconds since a hypervisor's last report."""
        text, = (row['last_report'] for row in json.loads(self._manage(
            'host', 'list', '-f', 'json')) if row['host'] == name)
        return float(text.split()[0]) if text != 'never' else math.inf

    def delete(self):
        """Delete the load balancer, and wait until it is gone."""
        members.remove_vip(self.first.own, self.vip, MEMBERS)
        with namespaces.inside(self.lab, paths.CONTROL):
            sdk = self._load_balancers()
            load_balancer = sdk.find_load_balancer(BALANCER)
            sdk.delete_load_balancer(load_balancer, cascade=True)
            processes.wait_for(
                'end of the load balancer',
                lambda: not sdk.find_load_balancer(BALANCER), TIMEOUT_S)

    def nothing_runs(self):
        """Check the host after unstack."""
        expect(not self.first.running(), f'{self.first.running()}')
        self.no_namespaces(self.first)
        return 'no service, no namespace'

    def nothing_left(self):
        """Check all hosts after clean."""
        self.nothing_runs()
        for host in self.first, self.second, self.compute:
            files = host.remaining_files()
            expect(not files, f'files are left: {files}')
            links = processes.run(self.lab, host.name,
                                  ['ip', '-br', 'link']).stdout
            expect('oxp-' not in links and 'vx-' not in links, links)
        control = rabbitmq.control_command(self.lab)
        for what in 'users', 'vhosts':
            output = processes.run(
                self.lab, paths.CONTROL,
                ['sh', '-c', f'{control} -q list_{what}']).stdout
            remaining = [line for line in output.splitlines()
                         if line.startswith((
                             'octavia-xdp-controller', 'octavia-xdp-driver',
                             'octavia-xdp\t')) or line == 'octavia-xdp']
            expect(not remaining, f'{what} are left: {remaining}')
        text = octavia.configuration(self.lab).read_text()
        expect(f'{octavia.XDP}:' not in text, f'octavia.conf: {text}')
        return 'no file, namespace, link, user or virtual host'

    def no_namespaces(self, host):
        """Check that a host's fabric is gone."""
        expect(not namespaces.hosts(host.own),
               f'{namespaces.hosts(host.own)}')

    def _load_balancers(self, user=cloud.TENANT):
        return cloud.connect(self.lab, user).load_balancer

    def _sessions(self, names):
        processes.wait_for(
            f'BGP sessions of {", ".join(names)}',
            lambda: set(names) <= set(router.sessions(self.first.own)),
            TIMEOUT_S)

    def _reporting(self, names):
        processes.wait_for(
            f'reports of {", ".join(names)}',
            lambda: all(self._nodes().get(name) for name in names),
            TIMEOUT_S, 1)

    def _nodes(self):
        output = self._manage('node', 'list', '-f', 'json')
        return {row['host']: row['alive'] for row in json.loads(output)}

    def _manage(self, *words):
        return processes.run(self.lab, paths.CONTROL, [
            paths.VENV / 'bin' / 'octavia-xdp-manage', '--config-file',
            self.first.configuration, *words]).stdout

    def _routed_through(self, names):
        wanted = sorted(nodes.address(name) for name in names)
        processes.wait_for(
            f'route to {self.vip} through {", ".join(names)}',
            lambda: router.next_hops(self.first.own, self.vip) == wanted,
            TIMEOUT_S)
