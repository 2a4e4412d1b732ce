# SPDX-License-Identifier: Apache-2.0
"""The lab's command line: python -m lab up | down | status | exec."""

import argparse
import os
import signal
import sys

from lab import cloud
from lab import deployment
from lab import namespaces
from lab import paths
from lab import processes
from lab.control import octavia
from lab.control import services
from lab.fabric import proxies

PLAIN, OVN = 'plain', 'ovn'


def main():
    """Run a command; print a LabError without a traceback."""
    arguments = _parser().parse_args()
    # SIGTERM ends "up" like an interrupt, so that it stops what it started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return arguments.command(paths.Lab(arguments.name), arguments)
    except paths.LabError as error:
        print(f'lab: {error}', file=sys.stderr)
    except KeyboardInterrupt:
        print('lab: interrupted', file=sys.stderr)
    return 1


def _up(lab, arguments):
    if arguments.services_only:
        if arguments.fabric != PLAIN:
            raise paths.LabError('--services-only has no fabric: omit '
                                 '--fabric')
        if arguments.proxies:
            raise paths.LabError('--services-only has no fabric: omit '
                                 '--proxies')
        deployment.up_services(lab)
        return
    deployment.up(lab, arguments.control_only, arguments.provider,
                  others=arguments.also, ovn=arguments.fabric == OVN,
                  proxies=arguments.proxies)
    print(f'\nLab {lab.name} is up. A command on the control host, as '
          f'tenant {cloud.TENANT}:\n'
          f'  {sys.executable} -m lab exec --name {lab.name} '
          f'{paths.CONTROL} -- openstack loadbalancer list\n'
          f'For a shell:  . {cloud.activate_file(lab)}')


def _down(lab, arguments):
    deployment.down(lab)


def _status(lab, arguments):
    hosts = namespaces.hosts(lab)
    if not hosts:
        print(f'Lab {lab.name} is down.')
        return 1
    addresses = lab.state.section('addresses')
    for host in hosts:
        print(host, *(f'{name}={address}' for name, address
                      in addresses.get(host, {}).items()))
    any_dead = False
    for process in processes.all_of(lab):
        any_dead = any_dead or not process.alive
        print(f'  {process.name}: {process.host or "outside"}, process '
              f'{process.pid}, {"alive" if process.alive else "DEAD"}, '
              f'log {process.log}')
    return 1 if any_dead else 0


def _exec(lab, arguments):
    if not namespaces.exists(lab, arguments.host):
        raise paths.LabError(
            f'lab {lab.name} has no host {arguments.host}; it has '
            f'{", ".join(namespaces.hosts(lab)) or "none"}')
    environment = {}
    if arguments.host == paths.CONTROL:
        environment = {**cloud.environment(lab, arguments.user),
                       **services.environment(lab)}
    processes.become(lab, arguments.host, arguments.argv,
                     {**os.environ, **environment})


def _parser():
    parser = argparse.ArgumentParser(prog='python -m lab',
                                     description=__doc__)
    commands = parser.add_subparsers(required=True, metavar='COMMAND')

    def add(name, command, description):
        subparser = commands.add_parser(name, help=description,
                                        description=description)
        subparser.add_argument('--name', default='demo',
                               help='name of the lab (demo)')
        subparser.set_defaults(command=command)
        return subparser

    up = add('up', _up, 'start a lab from scratch')
    up.add_argument('--control-only', action='store_true',
                    help='without routers, LB nodes, members and client')
    up.add_argument('--services-only', action='store_true',
                    help='RabbitMQ, MariaDB and PostgreSQL only')
    up.add_argument('--fabric', default=PLAIN, choices=(PLAIN, OVN),
                    help='ovn: add hypervisors with real OVN')
    up.add_argument('--proxies', type=int, default=0, metavar='N',
                    choices=range(len(proxies.NAMES) + 1),
                    help='add so many proxy nodes, which serve layer 7, and '
                         'Barbican, which stores certificates')
    up.add_argument('--provider', default=octavia.XDP,
                    choices=sorted(octavia.DESCRIPTIONS))
    up.add_argument('--also', action='append', default=[],
                    choices=sorted(octavia.DESCRIPTIONS),
                    help='an additional provider')
    add('down', _down, 'stop a lab and remove everything but its logs')
    add('status', _status, 'list hosts and processes')
    execute = add('exec', _exec, 'run a command on a host')
    execute.add_argument('--user', default=cloud.TENANT,
                         choices=(cloud.TENANT, cloud.ADMIN),
                         help='set the OS_* variables of this user on the '
                              'control host')
    execute.add_argument('host', metavar='HOST')
    execute.add_argument('argv', nargs='+', metavar='COMMAND')
    return parser


if __name__ == '__main__':
    sys.exit(main())
