# SPDX-License-Identifier: Apache-2.0
"""The command that takes a node out of service without losing flows."""

import argparse
from collections.abc import Iterable
from collections.abc import Sequence

from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import names
from octavia_xdp_provider.manage import node_state
from octavia_xdp_provider.manage import nodes
from octavia_xdp_provider.manage import open_slots
from octavia_xdp_provider.manage import waiting

# Load balancers that an error names at most.
_NAMED_MAX = 10


class Drain(names.HostArgument, command.Command):
    """Take a node out of service, its flows first.

    The drain begins when no node has open slots of the node's load balancers,
    because flows that moved meanwhile would break ("node open-slots"; load
    balancers with a second chance are not waited for). After --settle-timeout
    the command gives up and changes nothing; --now skips this wait.

    Then the node announces its VIPs as a last resort at once ([bgp]
    drain_communities, …), so that routers prefer other nodes that have them.
    A VIP leaves the node when enough other nodes announce it and it has
    drained for [placement] drain_time after that. VIPs that too few other
    nodes can take stay, as a last resort. With forwarding nat the VIP is
    withdrawn after drain_time, and the node keeps the flows until they end,
    for [placement] nat_drain_time at most. "node enable" undoes a drain.

    A proxy node is drained without waiting for slots. When another one has
    taken its place, LB nodes send it no new connections, and it keeps those
    that it has for [placement] proxy_drain_time.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_arguments(parser)
        return parser

    def take_action(self, arguments: argparse.Namespace) -> None:
        store, host = self.store(), arguments.host
        if not arguments.now:
            settle(self, store, [host], arguments.settle_timeout)
        if not store.nodes.set_in_service(host, False, draining=True):
            raise nodes.unknown(host)
        if not arguments.wait:
            return
        waiting.until_none(
            self.app, f'leaving {host}',
            lambda: store.placements.remaining(host), arguments.timeout,
            lambda remaining: (
                f'{len(remaining)} load balancers are still on {host}, as a '
                'last resort: too few other nodes can take them, do not '
                'announce them yet, or no controller runs ("lb list --node '
                f'{host}"): {join_first(remaining)}'
                + _describe_nat_flows(store, host)))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of commands that drain nodes."""
    parser.add_argument('--now', action='store_true',
                        help='do not wait for open slots: connections may '
                             'break')
    waiting.add_timeout(parser, '--settle-timeout', 900.0,
                        'give up if slots are open for longer')
    waiting.add_arguments(parser)


def settle(drain: command.Command, store: queries.Store,
           hosts: Iterable[str], timeout_s: float) -> None:
    """Wait until routers can move the flows of LB nodes."""
    timeout = drain.conf.placement.node_timeout
    proxies = store.nodes.conditions(rows.PROXY)
    hosts = sorted(host for host in hosts if host not in proxies)
    names = ', '.join(hosts)
    waiting.until_none(
        drain.app, f'open slots of {names}',
        lambda: [text for host in hosts for text
                 in open_slots.unsettled(store, host, timeout)],
        timeout_s, lambda unsettled: (
            f'{names}: not drained, because flows would break: load '
            'balancers have changed and may have open slots: '
            f'{join_first(unsettled)}. Wait until "node open-slots" no '
            'longer lists them, or use --now'))


def join_first(texts: Sequence[str]) -> str:
    """Return the first few texts of many."""
    return ', '.join(texts[:_NAMED_MAX]) + (
        ', …' if len(texts) > _NAMED_MAX else '')


def _describe_nat_flows(store: queries.Store, host: str) -> str:
    """Return a sentence on the node's NAT flows; '' if it has none."""
    flows = sum(node_state.nat_flows(node.state or {})
                for node in store.nodes.all() if node.host == host)
    return (f'. It has {flows} NAT flows, which are kept until they end or '
            '[placement] nat_drain_time has passed') if flows else ''
