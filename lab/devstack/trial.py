# SPDX-License-Identifier: Apache-2.0
"""DevStack's plugin in all its phases, on the lab's servers.

    python -m lab.devstack.trial [--name NAME]

A lab provides MariaDB, RabbitMQ, Keystone, Neutron and Octavia; its control
host is the DevStack host, and another namespace is the second host. DevStack's
functions are replaced by devstack/tests/functions.sh. Each step is recorded in
build/devstack.json. The exit status is 0 only if every step succeeded.
"""

import argparse
import signal
import sys

from lab import demo_steps
from lab import deployment
from lab import namespaces
from lab import paths
from lab.devstack import host as hosts
from lab.devstack import trial_steps

REPORT = paths.BUILD / 'devstack.json'
SECOND = 'host3'


class Trial(demo_steps.Steps):
    """Two hosts of a DevStack, one after the other."""

    def __init__(self, lab):
        super().__init__(lab, REPORT)
        second_address = paths.management_address(SECOND)
        # The first hypervisor does not exist. With an address of this host
        # its tunnel would lead back here.
        unused = paths.management_address('host1')
        both = {'OCTAVIA_XDP_HYPERVISORS':
                f'compute1={unused} {SECOND}={second_address}'}
        self.first = hosts.Host(
            lab, paths.CONTROL, f'{lab.name}-1',
            {**both, 'OCTAVIA_XDP_REMOTE_NODES': f'lb3={second_address}'})
        further = {**both, 'OCTAVIA_XDP_ROLE': 'node',
                   'OCTAVIA_XDP_HYPERVISOR': SECOND,
                   'OCTAVIA_XDP_OVSDB': 'unix:/nonexistent/db.sock',
                   'OCTAVIA_XDP_ROUTER_HOST': paths.CONTROL_ADDRESS}
        self.second = hosts.Host(lab, SECOND, f'{lab.name}-2',
                                 {**further, 'OCTAVIA_XDP_NODES': 'lb3'})
        # The same host a second time, without an LB node.
        self.compute = hosts.Host(lab, SECOND, f'{lab.name}-3',
                                  {**further, 'OCTAVIA_XDP_NODES': ''})
        self.checks = trial_steps.Checks(self)

    def run(self):
        """Run all steps.

        :raises demo_steps.StepFailed: a step failed.
        """
        checks = self.checks
        self.step('bring up MariaDB, RabbitMQ, Keystone, Neutron, Octavia',
                  self.bring_up)
        self.stack('', first=True)
        self.step('LB nodes report', checks.nodes_report)
        self.step('a load balancer carries traffic', checks.traffic)
        self.step('second host: stack', lambda: self.stack_further(
            self.second))
        self.step('second host: its LB node announces VIPs, and forwards',
                  checks.second_node)
        self.step('second host: LB nodes reach it as a hypervisor',
                  lambda: checks.hypervisor(SECOND, self.second, 'lb3'))
        self.step('second host: unstack, clean', lambda: self.remove(
            self.second))
        self.step('second host, without LB nodes: stack',
                  lambda: self.stack_further(self.compute))
        self.step('second host, without LB nodes: it is a hypervisor',
                  lambda: checks.hypervisor(SECOND, self.compute))
        self.step('second host, without LB nodes: unstack, clean',
                  lambda: self.remove(self.compute))
        self.step('delete the load balancer', checks.delete)
        self.step('unstack', lambda: self.first.phase('unstack'))
        self.step('nothing runs', checks.nothing_runs)
        self.stack(' again', first=False)
        self.step('LB nodes report again', checks.nodes_report)
        self.step('a load balancer carries traffic again', checks.traffic)
        self.step('delete it', checks.delete)
        self.step('unstack again', lambda: self.first.phase('unstack'))
        self.step('clean', lambda: self.first.phase('clean'))
        self.step('nothing is left', checks.nothing_left)
        self.step('clean once more', lambda: self.first.phase('clean'))

    def bring_up(self):
        deployment.up(self.lab, control_only=True, provider='noop_driver')
        namespaces.create(self.lab, SECOND)
        namespaces.join_management(self.lab, SECOND)
        for host in self.first, self.second:
            host.prepare()

    def stack(self, again, first):
        """Run all phases of stack.sh."""
        host = self.first
        for name in ('override_defaults', 'source'):
            self.step(f'{name}{again}', lambda name=name: host.phase(name))
        for name in ('pre-install', 'install', 'post-config'):
            self.step(f'stack {name}{again}',
                      lambda name=name: host.phase('stack', name))
        if first:
            self.step('Octavia starts with the new configuration',
                      self.checks.restart_octavia)
        for name in ('extra', 'test-config'):
            self.step(f'stack {name}{again}',
                      lambda name=name: host.phase('stack', name))

    def stack_further(self, host):
        for name in ('override_defaults', 'source'):
            host.phase(name)
        for name in ('pre-install', 'install', 'post-config', 'extra',
                     'test-config'):
            host.phase('stack', name)

    def remove(self, host):
        host.phase('unstack')
        host.phase('clean')
        self.checks.no_namespaces(host)

    def end(self):
        """Stop everything, in any state."""
        for host in self.first, self.second, self.compute:
            host.end()
        deployment.down(self.lab)


def main():
    parser = argparse.ArgumentParser(prog='python -m lab.devstack.trial',
                                     description=__doc__)
    parser.add_argument('--name', default='devstack-trial',
                        help='the lab (devstack-trial)')
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    trial = Trial(paths.Lab(arguments.name))
    status = 1
    try:
        trial.run()
        status = 0
    except demo_steps.StepFailed as error:
        print(f'\nFAILED: {error}\nLogs: {trial.lab.logs}', file=sys.stderr)
    except KeyboardInterrupt:
        print('\nInterrupted.', file=sys.stderr)
    finally:
        trial.end()
    if status == 0:
        print('\nAll steps succeeded. Report: '
              f'{trial.report.relative_to(paths.CHECKOUT)}')
    return status


if __name__ == '__main__':
    sys.exit(main())
