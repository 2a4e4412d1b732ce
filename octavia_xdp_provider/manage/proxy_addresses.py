# SPDX-License-Identifier: Apache-2.0
"""The command that changes the registered addresses of a proxy node."""

import argparse

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import names
from octavia_xdp_provider.manage import nodes


class Register(names.HostArgument, command.Command):
    """Register the addresses that LB nodes reach a proxy node at.

    They replace those that are registered: one IPv4 address, one IPv6 address
    or both. Addresses that the node reports about itself are not used.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('addresses', nargs='*', metavar='ADDRESS',
                            help='an address that only this node has')
        return parser

    def take_action(self, arguments: argparse.Namespace) -> None:
        try:
            is_known = self.store().nodes.set_proxy_addresses(
                arguments.host, arguments.addresses)
        except errors.Refused as error:
            raise command.CommandError(str(error)) from error
        if not is_known:
            raise nodes.unknown(arguments.host)
