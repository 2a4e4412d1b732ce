# SPDX-License-Identifier: Apache-2.0
"""The command that takes an LB node out of service without a loss."""

from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import nodes
from octavia_xdp_provider.manage import waiting

# Of what is left, named in an error.
_NAMED = 10


class Drain(command.Command):
    """Take an LB node out of service, its routes first.

    The node announces its VIPs as a last resort at once ([bgp]
    drain_communities, …), so that routers use other nodes that have them. A
    VIP leaves it when as many others as it should be on have and announce it,
    and has drained for [placement] drain_time then. What too few others can
    take stays, as a last resort. "node enable" undoes it.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        nodes.add_host(parser)
        waiting.add_arguments(parser)
        return parser

    def take_action(self, arguments):
        store, host = self.store(), arguments.host
        if not store.set_in_service(host, False, draining=True):
            raise nodes.unknown(host)
        if not arguments.wait:
            return
        waiting.until_none(
            self.app, f'leaving {host}', lambda: store.remaining(host),
            arguments.timeout, lambda left: (
                f'{len(left)} load balancers are still on {host}, as a last '
                'resort: too few other nodes can take them, do not announce '
                'them yet, or no controller runs ("lb list --node '
                f'{host}"): {", ".join(left[:_NAMED])}'
                + (', …' if len(left) > _NAMED else '')))
