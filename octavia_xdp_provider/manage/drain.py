# SPDX-License-Identifier: Apache-2.0
"""The command that takes an LB node out of service without a loss."""

from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import node_state
from octavia_xdp_provider.manage import nodes
from octavia_xdp_provider.manage import open_slots
from octavia_xdp_provider.manage import waiting

# Of what is left, named in an error.
_NAMED = 10


class Drain(command.Command):
    """Take an LB node out of service, its routes first.

    Begins when no slots are open of load balancers that the node has, on any
    node: flows would break that move meanwhile ("node open-slots"; load
    balancers with a second chance are not waited for). If that takes longer
    than --settle-timeout nothing has changed; --now does not wait for it.

    Then the node announces its VIPs as a last resort at once ([bgp]
    drain_communities, …), so that routers use other nodes that have them. A
    VIP leaves it when as many others as it should be on have and announce it,
    and has drained for [placement] drain_time then. What too few others can
    take stays, as a last resort. With forwarding nat the VIP is withdrawn
    after drain_time, and the node keeps the flows until they have ended, for
    [placement] nat_drain_time at most. "node enable" undoes it.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        nodes.add_host(parser)
        parser.add_argument('--now', action='store_true',
                            help='also if connections break by it')
        parser.add_argument('--settle-timeout', type=float, default=900.0,
                            metavar='SECONDS',
                            help='give up if slots are open for longer '
                                 '(default: 900)')
        waiting.add_arguments(parser)
        return parser

    def take_action(self, arguments):
        store, host = self.store(), arguments.host
        if not arguments.now:
            self._settle(store, host, arguments.settle_timeout)
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
                f'{host}"): {_named(left)}'
                + _flows(store, host)))

    def _settle(self, store, host, timeout_s):
        """Until routers can move the node's flows."""
        waiting.until_none(
            self.app, f'open slots of {host}',
            lambda: open_slots.unsettled(
                store, host, self.conf.placement.node_timeout),
            timeout_s, lambda left: (
                f'{host} is as it was: flows would break, as load balancers '
                'have changed and slots may be open: '
                f'{_named(left)}. Wait until "node open-slots" does not show '
                'them any more, or use --now'))


def _named(left):
    return ', '.join(left[:_NAMED]) + (', …' if len(left) > _NAMED else '')


def _flows(store, host):
    """Words on the flows by NAT that a node has."""
    flows = sum(node_state.nat_flows(node.state or {})
                for node in store.nodes() if node.host == host)
    return (f'. It has {flows} flows by NAT, which are kept until they have '
            'ended or [placement] nat_drain_time is over') if flows else ''
