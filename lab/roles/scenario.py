# SPDX-License-Identifier: Apache-2.0
"""Run and upgrade the roles, with checks."""

import json
import re

from lab import cloud
from lab import demo_steps
from lab import namespaces
from lab import paths
from lab import processes
from lab.fabric import client
from lab.fabric import links
from lab.fabric import members
from lab.fabric import router
from lab.packages import build
from lab.roles import ansible
from lab.roles import hosts
from lab.roles import inventory

# Much more than it takes on an idle machine.
SOON_S = 300
BALANCER = 'web'
SITE, UPGRADE = 'site.yaml', 'upgrade.yaml'
UNITS = {
    paths.CONTROL: ['octavia-xdp-controller'],
    **{node: ['octavia-xdp-agent', 'octavia-xdp-result-handler',
              'octavia-xdp-hc', 'octavia-xdp-exabgp']
       for node in hosts.NODES},
    hosts.HYPERVISOR: ['octavia-xdp-host-agent'],
    links.ROUTER: ['bird'],
    hosts.MEMBER: [f'octavia-xdp-member@{links.UPLINK}'],
}
OLD = ('--extra-vars', f'octavia_xdp_version={build.OLD_VERSION}')
_expect = demo_steps.expect


class Roles:
    """Steps, each of which returns a line of detail."""

    def __init__(self, lab, machines):
        self.lab = lab
        self.machines = machines
        self.vip = None

    def first(self):
        """Run the playbook on all hosts, with an older release."""
        inventory.write(self.lab)
        changed = ansible.play(self.lab, SITE, *OLD)
        _expect(changed.keys() == hosts.HOSTS.keys() and all(
            changed.values()), f'changed: {changed}')
        return f'changed: {changed}'

    def works(self):
        """Check units, live nodes and hypervisors, and BGP sessions."""
        for host, units in UNITS.items():
            for unit in units:
                self.machines.expect_active(host, unit)
        processes.wait_for('nodes that are alive', lambda: all(
            node['alive'] for node in self._nodes()), SOON_S, 1)
        processes.wait_for('BGP sessions', lambda: self._sessions() == len(
            hosts.NODES), SOON_S, 1)
        processes.wait_for('agent of the hypervisor', lambda: all(
            host['alive'] for host in self._manage('host', 'list')),
            SOON_S, 1)
        return (f'{sum(map(len, UNITS.values()))} units run; nodes, '
                'hypervisor and BGP sessions are up')

    def _manage(self, *words):
        return json.loads(self.machines.systemd[paths.CONTROL].run(
            'setpriv', '--reuid=octavia', '--regid=octavia', '--init-groups',
            'octavia-xdp-manage', *words, '-f', 'json'))

    def _nodes(self):
        return self._manage('node', 'list')

    def _sessions(self):
        return self.machines.systemd[links.ROUTER].run(
            'birdc', 'show', 'protocols').count('Established')

    def second(self, *options):
        """Run the playbook again, which must change nothing."""
        changed = ansible.play(self.lab, SITE, *options)
        _expect(changed.keys() == hosts.HOSTS.keys() and not any(
            changed.values()), f'changed: {changed}')
        return f'changed: {changed}'

    def create(self):
        """Create a load balancer; its VIP changes settings of members only."""
        load_balancer = cloud.openstack(
            self.lab, 'loadbalancer', 'create', '--name', BALANCER,
            '--provider', 'xdp', '--vip-subnet-id', 'vips-v4', '--wait')
        self.vip = load_balancer['vip_address']
        self._openstack('listener', 'create', '--name', 'http', '--protocol',
                        'TCP', '--protocol-port', '80', '--wait', BALANCER)
        self._openstack('pool', 'create', '--name', 'servers', '--listener',
                        'http', '--protocol', 'TCP', '--lb-algorithm',
                        'SOURCE_IP_PORT', '--wait')
        self._openstack('healthmonitor', 'create', '--type', 'HTTP',
                        '--delay', '5', '--timeout', '4', '--max-retries',
                        '2', '--wait', 'servers')
        self._openstack('member', 'create', '--address',
                        members.address(hosts.MEMBER), '--protocol-port',
                        '80', '--wait', 'servers')
        inventory.write(self.lab, [self.vip])
        changed = ansible.play(self.lab, SITE)
        _expect([name for name in changed if changed[name]]
                == [hosts.MEMBER], f'changed: {changed}')
        processes.wait_for('ACTIVE and ONLINE load balancer', lambda: (
            self._status() == ('ACTIVE', 'ONLINE')), SOON_S, 1)
        self._wait_routes(len(hosts.NODES))
        answers = client.requests(self.lab, self._url(), 200)
        _expect(not answers.failures, f'failed: {answers.failures[:3]}')
        return f'VIP {self.vip}; {answers.total} requests; {changed}'

    def _openstack(self, *words):
        return cloud.openstack(self.lab, 'loadbalancer', *words, timeout=300)

    def _status(self):
        with namespaces.inside(self.lab, paths.CONTROL):
            load_balancer = cloud.connect(
                self.lab).load_balancer.find_load_balancer(BALANCER)
        return (load_balancer.provisioning_status,
                load_balancer.operating_status)

    def _url(self):
        return f'http://{self.vip}/'

    def _wait_routes(self, number):
        processes.wait_for(
            f'route through {number} nodes',
            lambda: len(router.next_hops(self.lab, self.vip)) == number,
            SOON_S, 0.5)

    def fail(self):
        """Upgrade with a failure on the first node; the second stays."""
        first, second = hosts.NODES
        wrong = ('--extra-vars', json.dumps({
            'octavia_xdp_version': self._new(),
            'octavia_xdp_uplinks': ['nothing'], 'node_upgrade_wait_s': 10}))
        with self._load() as load:
            ran, text = ansible.play_to_fail(self.lab, UPGRADE, *wrong)
        _expect('and no node after it' in text, text[-3000:])
        _expect(second not in ran, f'tasks ran on {second}: {text}')
        version = self.machines.version(second, 'octavia-xdp-node')
        _expect(version == build.OLD_VERSION, f'{second} has {version}')
        in_service = {node['host']: node['in_service']
                      for node in self._nodes()}
        _expect(in_service == {first: False, second: True}, f'{in_service}')
        return f'{self._answered(load)}; in service: {in_service}'

    def upgrade(self):
        """Upgrade: each node is drained and enabled, no request fails."""
        new = self._new()
        with self._load() as load:
            changed = ansible.play(
                self.lab, UPGRADE, '--extra-vars',
                f'octavia_xdp_version={new}')
            self._wait_routes(len(hosts.NODES))
        text = ansible.LOG.read_text()
        enabled = re.findall(r'TASK \[node_upgrade : Put the node back into '
                             r'service\] \*+\nchanged: \[(\w+) ', text)
        _expect(enabled == list(hosts.NODES), f'enabled: {enabled}\n{text}')
        for host, package in (
                (paths.CONTROL, 'octavia-xdp-provider'),
                *((node, 'octavia-xdp-node') for node in hosts.NODES),
                (hosts.HYPERVISOR, 'octavia-xdp-host'),
                (hosts.MEMBER, 'octavia-xdp-member')):
            version = self.machines.version(host, package)
            _expect(version == new, f'{host} has {version}')
        self.works()
        return f'{self._answered(load)}; changed: {changed}'

    def upgrade_again(self):
        """Upgrade again, which must change nothing."""
        changed = ansible.play(self.lab, UPGRADE, '--extra-vars',
                               f'octavia_xdp_version={self._new()}')
        _expect(not any(changed.values()), f'changed: {changed}')
        return f'changed: {changed}'

    def _new(self):
        return build.version()

    def _load(self):
        return client.Load(self.lab, self._url(), timeout=30, pause=0.05)

    @staticmethod
    def _answered(load):
        _expect(not load.answers.failures,
                f'{len(load.answers.failures)} of {load.answers.total} '
                f'requests failed, first: {load.answers.failures[:1]}')
        _expect(load.answers.total > 0, 'no request was made')
        return f'all of {load.answers.total} requests answered'
