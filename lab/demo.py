# SPDX-License-Identifier: Apache-2.0
"""The demonstration: a tenant's load balancer, from CLI to packets.

    python -m lab.demo [--members servers | vms | --l7] [--keep | --keep-lab]

Every step prints what it does and its result, which are also written to
build/demo.json, build/demo-vms.json (lab/ovn/demo.py) or build/demo-l7.json
(lab/demo_l7.py). The exit status is 0 only if every step succeeded.
"""

import argparse
import signal
import sys
import time

from lab import cloud
from lab import demo_l7
from lab import demo_steps
from lab import deployment
from lab import namespaces
from lab import paths
from lab import processes
from lab.control import octavia
from lab.fabric import capture
from lab.fabric import client
from lab.fabric import members
from lab.fabric import nodes
from lab.fabric import router
from lab.fabric import topology
from lab.ovn import demo as vms_demo

REPORT = paths.BUILD / 'demo.json'
BALANCER = 'web'
LISTENER = 'web-http'
POOL = 'web-servers'
DELAY, FALL, RISE = 2, 2, 2
STATUS_TIMEOUT = 120

# Of --members.
SERVERS, VMS = 'servers', 'vms'

_expect = demo_steps.expect


class Demo(demo_steps.Steps):
    """Members that are prepared servers."""

    def __init__(self, lab, keep, others=()):
        super().__init__(lab, REPORT)
        self.keep = keep
        self.others = others
        self.vip = None

    def run(self):
        """Run all steps.

        :raises demo_steps.StepFailed: a step failed.
        """
        self.step('bring up control host, fabric and LB nodes',
                  lambda: deployment.up(self.lab, others=self.others))
        self.step('the provider is listed', self.provider)
        self.step('create a load balancer', self.create)
        self.step('members take the VIP on their loopback', self.add_vip)
        self.step('wait for ACTIVE and ONLINE', self.wait_online)
        self.step('1,000 requests', self.thousand_requests)
        self.step('a member\'s server dies', self.kill_server)
        self.step('the server comes back', self.restore_server)
        self.step('an LB node is stopped', self.stop_node)
        self.step('the LB node comes back', self.start_node)
        if not self.keep:
            self.step('delete the load balancer', self.delete)

    # The tenant's commands

    def provider(self):
        output = self.openstack('loadbalancer', 'provider', 'list')
        _expect('xdp' in output, 'provider xdp is missing')

    def create(self):
        self.vip = self.openstack(
            'loadbalancer', 'create', '--name', BALANCER, '--provider',
            'xdp', '--vip-subnet-id', 'vips-v4', '--wait', '-f', 'value',
            '-c', 'vip_address')
        self.openstack(
            'loadbalancer', 'listener', 'create', '--name', LISTENER,
            '--protocol', 'TCP', '--protocol-port', '80', '--wait', '-f',
            'value', '-c', 'provisioning_status', BALANCER)
        self.openstack(
            'loadbalancer', 'pool', 'create', '--name', POOL, '--listener',
            LISTENER, '--protocol', 'TCP', '--lb-algorithm',
            'SOURCE_IP_PORT', '--wait', '-f', 'value', '-c',
            'provisioning_status')
        self.openstack(
            'loadbalancer', 'healthmonitor', 'create', '--name',
            'web-monitor', '--type', 'HTTP', '--url-path', '/', '--delay',
            str(DELAY), '--timeout', '1', '--max-retries', str(RISE),
            '--max-retries-down', str(FALL), '--wait', '-f', 'value', '-c',
            'provisioning_status', POOL)
        for member in topology.MEMBERS:
            self.openstack(
                'loadbalancer', 'member', 'create', '--name', member,
                '--address', members.address(member), '--protocol-port',
                '80', '--wait', '-f', 'value', '-c', 'provisioning_status',
                POOL)
        return f'VIP {self.vip}'

    def add_vip(self):
        members.add_vip(self.lab, self.vip, topology.MEMBERS)

    def wait_online(self):
        with namespaces.inside(self.lab, paths.CONTROL):
            sdk = _load_balancers(self.lab)
            processes.wait_for(
                'an ACTIVE and ONLINE load balancer',
                lambda: _status(sdk) == ('ACTIVE', 'ONLINE'),
                STATUS_TIMEOUT, 0.5)
        processes.wait_for(
            'a route through both LB nodes',
            lambda: len(self.next_hops()) == len(topology.NODES), 30)
        self.openstack('loadbalancer', 'member', 'list', '-c', 'name', '-c',
                       'address', '-c', 'provisioning_status', '-c',
                       'operating_status', POOL)
        return f'{self.vip}/32 via {", ".join(self.next_hops())}'

    def next_hops(self):
        return router.next_hops(self.lab, self.vip)

    # Traffic

    def requests(self, number):
        """Send requests by curl, and expect answers to all of them."""
        before = {node: capture.packets_to(self.lab, node)
                  for node in topology.NODES}
        answers = client.requests(self.lab, f'http://{self.vip}/', number)
        through = {node: capture.packets_to(self.lab, node) - before[node]
                   for node in topology.NODES}
        for member in topology.MEMBERS:
            count = answers.count[member]
            print(f'             {member} answered {count:5} '
                  f'{"#" * (count * 40 // number)}')
        for node, packets in through.items():
            print(f'             {node} forwarded {packets:6} packets',
                  flush=True)
        _expect(not answers.failures,
                f'{len(answers.failures)} of {number} requests failed, '
                f'first: {"".join(answers.failures[:1])}')
        _expect(answers.total == number,
                f'{answers.total} of {number} answers')
        return answers, through

    def thousand_requests(self):
        answers, through = self.requests(1000)
        _expect(set(answers.count) == set(topology.MEMBERS),
                f'only {sorted(answers.count)} answered')
        _expect(all(packets > 500 for packets in through.values()),
                f'not through both nodes: {through}')
        return (f'all answered; {dict(sorted(answers.count.items()))}; '
                f'packets by node {through}')

    def kill_server(self):
        victim = topology.MEMBERS[2]
        processes.kill(self.lab, members.http_name(victim), signal.SIGTERM)
        limit = DELAY * FALL + 1
        time.sleep(limit)
        answers, _ = self.requests(200)
        _expect(victim not in answers.count, f'{victim} still answers')
        self.wait_member(victim, 'ERROR')
        self.openstack('loadbalancer', 'member', 'list', '-c', 'name', '-c',
                       'operating_status', POOL)
        return (f'no request failed {limit} s later, {victim} is in ERROR')

    def restore_server(self):
        victim = topology.MEMBERS[2]
        processes.restart(self.lab, members.http_name(victim))
        self.wait_member(victim, 'ONLINE')
        answers, _ = self.requests(200)
        _expect(victim in answers.count, f'{victim} gets nothing')
        return f'{victim} is ONLINE and answers again'

    def wait_member(self, name, operating):
        with namespaces.inside(self.lab, paths.CONTROL):
            sdk = _load_balancers(self.lab)
            pool = sdk.find_pool(POOL)
            processes.wait_for(
                f'the operating status {operating} of {name}',
                lambda: sdk.find_member(name, pool).operating_status
                == operating, 60, 0.5)

    def stop_node(self):
        node = topology.NODES[1]
        with client.Load(self.lab, f'http://{self.vip}/', timeout=2,
                         pause=0.01) as load:
            time.sleep(1)
            nodes.stop(self.lab, node)
            time.sleep(2)
        # Other packets of the router to a neighbour do not matter.
        with capture.at_node(self.lab, node, f'dst host {self.vip}') as link:
            answers, _through = self.requests(200)
        _expect(not link.packets,
                f'{node} still gets {len(link.packets)} packets')
        _expect(len(load.answers.failures) == 0,
                f'{len(load.answers.failures)} of {load.answers.total} '
                'requests failed while it stopped')
        return (f'{load.answers.total} requests while {node} stopped and '
                f'{answers.total} after it, none failed')

    def start_node(self):
        nodes.start(self.lab, topology.NODES[1])
        processes.wait_for(
            'a route through both LB nodes',
            lambda: len(self.next_hops()) == len(topology.NODES), 60)
        return f'{self.vip}/32 via {", ".join(self.next_hops())}'

    def delete(self):
        self.openstack('loadbalancer', 'delete', '--cascade', '--wait',
                       BALANCER)
        _expect(not self.next_hops(),
                f'the route is still there: {self.next_hops()}')
        return f'no route to {self.vip} any more'


def _load_balancers(lab):
    return cloud.connect(lab).load_balancer


def _status(sdk):
    balancer = sdk.find_load_balancer(BALANCER)
    return balancer.provisioning_status, balancer.operating_status


def _interrupt(*_):
    raise KeyboardInterrupt


def main():
    parser = argparse.ArgumentParser(prog='python -m lab.demo',
                                     description=__doc__)
    parser.add_argument('--name', default='demo', help='the lab (demo)')
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument('--members', default=SERVERS,
                      choices=(SERVERS, VMS),
                      help='vms: unmodified VMs on hypervisors, which are '
                           'not prepared for load balancers')
    kind.add_argument('--l7', action='store_true',
                      help='HTTP, served by proxy nodes')
    keep = parser.add_mutually_exclusive_group()
    keep.add_argument('--keep', action='store_true',
                      help='leave everything up afterwards')
    keep.add_argument('--keep-lab', action='store_true',
                      help='leave the lab up, without the load balancer')
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    lab = paths.Lab(arguments.name)
    # Tests that use the lab afterwards have load balancers of noop, too.
    others = (octavia.NOOP,) if arguments.keep_lab else ()
    if arguments.l7:
        demo = demo_l7.Demo(lab, arguments.keep)
    elif arguments.members == VMS:
        demo = vms_demo.Demo(lab, arguments.keep)
    else:
        demo = Demo(lab, arguments.keep, others)

    def describe_kept_lab():
        return ('\nThe lab is up. For the CLI:  . '
                f'{cloud.activate_file(lab)}\nTo end it:  make demo-down')
    return demo_steps.run(
        demo, describe_kept_lab
        if arguments.keep or arguments.keep_lab else None)


if __name__ == '__main__':
    sys.exit(main())
