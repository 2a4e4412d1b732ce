# SPDX-License-Identifier: Apache-2.0
"""Commands for devstack/plugin.sh: python -m lab.devstack COMMAND.

They read variables from the environment (devstack/settings).
"""

import argparse
import json
import shlex
import shutil
import sys

from lab import paths
from lab.devstack import cloud
from lab.devstack import control
from lab.devstack import fabric
from lab.devstack import services
from lab.devstack import site as sites
from lab.devstack import tempest


def _broker(site):
    json.dump(control.definitions(site), sys.stdout)


def _broker_removals(site):
    for words in control.removals(site):
        print(shlex.join(words))


def _services(site):
    for name, user, command in services.commands(site):
        print(f'{name}\t{user}\t{command}')


def _tempest(_site):
    for words in tempest.options():
        print('\t'.join(words))


def _fabric(site):
    fabric.up(site)
    services.configure_nodes(site)


def _clean(site):
    fabric.down(site)
    shutil.rmtree(site.lab.directory, ignore_errors=True)
    site.lab.directory.with_suffix('.lock').unlink(missing_ok=True)


COMMANDS = {
    'check': (lambda site: None, 'check the variables'),
    'broker': (_broker, 'print definitions for RabbitMQ to import'),
    'broker-removals': (_broker_removals,
                        'print arguments of rabbitmqctl that undo the import'),
    'configure': (control.configure,
                  'write the configuration of driver and controller'),
    'register': (control.register, 'register LB nodes and hypervisors'),
    'user': (cloud.make_user, 'create the user of the controller'),
    'networks': (cloud.make_networks, 'create networks of VIPs and members'),
    'flavors': (cloud.make_flavors, 'create flavors and their profiles'),
    'database-drop': (control.drop_database,
                      "delete the controller's database"),
    'fabric': (_fabric, 'create the fabric, and configure its LB nodes'),
    'fabric-down': (lambda site: fabric.down(site), 'remove the fabric'),
    'services': (_services, 'print names, users and commands of services'),
    'tempest': (_tempest, 'print sections, options and values for tempest'),
    'clean': (_clean, 'remove the fabric and all its files'),
}
WITH_VALUE = {'drivers': control.enabled_drivers,
              'drivers-without': control.disabled_drivers}


def main():
    """Run a command; print a LabError without a traceback."""
    parser = argparse.ArgumentParser(prog='python -m lab.devstack',
                                     description=__doc__)
    commands = parser.add_subparsers(required=True, metavar='COMMAND',
                                     dest='command')
    for name, (_function, text) in COMMANDS.items():
        commands.add_parser(name, help=text, description=text)
    for name in WITH_VALUE:
        text = 'print enabled_provider_drivers with or without the provider'
        commands.add_parser(name, help=text).add_argument('value')
    arguments = parser.parse_args()
    if arguments.command in WITH_VALUE:
        print(WITH_VALUE[arguments.command](arguments.value))
        return 0
    try:
        COMMANDS[arguments.command][0](sites.Site.from_environment())
    except paths.LabError as error:
        print(f'lab.devstack: {error}', file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
