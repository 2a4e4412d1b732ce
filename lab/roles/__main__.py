# SPDX-License-Identifier: Apache-2.0
"""Run the roles of deploy/ansible twice, and upgrade under traffic.

    python -m lab.roles [--name NAME]

It needs root. Each step is recorded in build/roles.json. The exit status is 0
only if every step succeeded. Each host is a network namespace with its own
Debian, in which systemd and sshd run; the lab provides Octavia, its database
and its broker.
"""

import argparse
import os
import signal
import sys

from lab import demo_steps
from lab import paths
from lab.packages import build
from lab.roles import ansible
from lab.roles import hosts
from lab.roles import scenario

REPORT = paths.BUILD / 'roles.json'


def steps(lab, machines):
    """Return {name: function} in order."""
    roles = scenario.Roles(lab, machines)
    return {
        'install Ansible': ansible.install,
        'ansible-lint': ansible.lint,
        'build the packages, and older versions': build.with_older,
        'create a Debian for each host': machines.make_roots,
        'start Octavia and the hosts': machines.start,
        'run the playbook': roles.first,
        'check that units run and work': roles.works,
        'run the playbook again': lambda: roles.second(*scenario.OLD),
        'create a load balancer, whose VIP the member serves': roles.create,
        'an upgrade that fails on the first node': roles.fail,
        'upgrade, one node after the other': roles.upgrade,
        'upgrade again': roles.upgrade_again,
        'run the playbook once more': roles.second,
    }


def main():
    """Run all steps; return 1 at the first failure."""
    parser = argparse.ArgumentParser(prog='python -m lab.roles')
    parser.add_argument('--name', default='roles', help='the lab (roles)')
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        print('make roles: needs root', file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with build.locked():
            return _run_all(paths.Lab(arguments.name))
    except build.Busy as error:
        print(f'make roles: {error}', file=sys.stderr)
        return 1


def _run_all(lab):
    machines = hosts.Hosts(lab)
    try:
        return demo_steps.run_all(REPORT, steps(lab, machines),
                                  f'\nLogs: {lab.logs}, {hosts.FOLDER}')
    finally:
        machines.end()


if __name__ == '__main__':
    sys.exit(main())
