# SPDX-License-Identifier: Apache-2.0
"""Arguments that select hosts and load balancers."""

import argparse

from cliff import command as cliff_command

from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.manage import command


class HostArgument(cliff_command.Command):
    """Mixin of commands that take one LB node or hypervisor."""

    host_help = '[DEFAULT] host of the node'

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('host', help=self.host_help)
        return parser


class LoadBalancerArgument(cliff_command.Command):
    """Mixin of commands that take one load balancer."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('load_balancer', metavar='LOAD_BALANCER',
                            help='id or name of the load balancer')
        return parser


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Add --node and --project."""
    parser.add_argument('--node', metavar='HOST',
                        help='only load balancers on this node')
    parser.add_argument('--project', metavar='ID',
                        help='only load balancers of this project')


def find_load_balancer(store: queries.Store, id_or_name: str
                       ) -> rows.LoadBalancer:
    """Return the row of a load balancer, by id or name as Octavia's client.

    :raises CommandError: there is none, or several have that name.
    """
    load_balancer = store.load_balancers.get(id_or_name)
    if load_balancer is not None:
        return load_balancer
    matches = [row for row in store.load_balancers.select()
               if row.document.get('name') == id_or_name]
    if len(matches) > 1:
        raise command.CommandError(
            f'{len(matches)} load balancers have the name {id_or_name!r}, '
            'use an id: ' + ', '.join(sorted(row.id for row in matches)))
    if not matches:
        raise command.CommandError(
            f'there is no load balancer with the id or name {id_or_name!r}; '
            '"octavia-xdp-manage lb list" shows the existing ones')
    return matches[0]
