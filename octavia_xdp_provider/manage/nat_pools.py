# SPDX-License-Identifier: Apache-2.0
"""Command that says which addresses an LB node may use for NAT."""

from octavia_xdp_provider.common import errors
from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import nodes


class Register(command.Command):
    """Register the pools for NAT of an LB node; none: it has none any more.

    They are [nat] pools of the node. No member may lie in them, and what a
    node reports beside them counts for nothing.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        nodes.add_host(parser)
        parser.add_argument('pools', nargs='*', metavar='CIDR',
                            help='a network of its own, in place of those '
                                 'that are registered')
        return parser

    def take_action(self, arguments):
        register(self.store(), arguments.host, arguments.pools)


def register(store, host, pools):
    """:raises NotDone: these cannot be, or there is no such node."""
    try:
        is_known = store.set_nat_pools(host, pools)
    except errors.Refused as error:
        raise command.NotDone(str(error)) from error
    if not is_known:
        raise nodes.unknown(host)
