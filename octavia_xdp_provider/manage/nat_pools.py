# SPDX-License-Identifier: Apache-2.0
"""The command that registers the addresses an LB node may use for NAT."""

import argparse

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import names
from octavia_xdp_provider.manage import nodes


class Register(names.HostArgument, command.Command):
    """Register the NAT pools of an LB node; without a CIDR, remove them.

    Use the values of [nat] pools on the node. Members cannot have addresses
    in them. Pools that a node reports but that are not registered are ignored.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('pools', nargs='*', metavar='CIDR',
                            help='a network that only this node uses; '
                                 'replaces those that are registered')
        return parser

    def take_action(self, arguments: argparse.Namespace) -> None:
        try:
            is_known = self.store().nodes.set_nat_pools(
                arguments.host, arguments.pools)
        except errors.Refused as error:
            raise command.CommandError(str(error)) from error
        if not is_known:
            raise nodes.unknown(arguments.host)
