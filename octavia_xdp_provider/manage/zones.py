# SPDX-License-Identifier: Apache-2.0
"""Commands for availability zones of nodes."""

import argparse
from collections.abc import Iterable

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.controller.scheduler import removal_budget
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import drain
from octavia_xdp_provider.manage import names
from octavia_xdp_provider.manage import nodes
from octavia_xdp_provider.manage import waiting


class Register(names.HostArgument, command.Command):
    """Register the availability zone of a node; without ZONE, remove it.

    Load balancers are spread over zones ([placement] spread), and those of an
    availability zone of Octavia are on nodes of its "zone" only. Nodes without
    a zone count as nodes of one common zone. What a node reports about itself
    does not matter.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('zone', nargs='?', metavar='ZONE',
                            help='name of the zone')
        return parser

    def take_action(self, arguments: argparse.Namespace) -> None:
        try:
            is_known = self.store().nodes.set_zone(arguments.host,
                                                   arguments.zone)
        except errors.Refused as error:
            raise command.CommandError(str(error)) from error
        if not is_known:
            raise nodes.unknown(arguments.host)


class List(command.List):
    """List availability zones, with their nodes and load balancers.

    "only_here" counts load balancers that would fail with the zone: all their
    LB nodes or all their proxy nodes that work are in it, although they want
    nodes in several zones. The
    zone without a name has the nodes without a zone.
    """

    def take_action(self, arguments: argparse.Namespace) -> command.Table:
        store = self.store()
        load, by_zone = store.placements.load(), dict[str, list[rows.Node]]()
        for node in sorted(store.nodes.all(), key=lambda node: node.host):
            by_zone.setdefault(node.zone or '', []).append(node)
        only_here = store.balance.in_one_zone(rows.wanted(self.conf.placement))
        return ('zone', 'nodes', 'live', 'in_service', 'load_balancers',
                'only_here'), [(
                    zone, ' '.join(node.host for node in members),
                    sum(node.condition == 'live' for node in members),
                    sum(node.in_service for node in members),
                    sum(load.get(node.host, 0) for node in members),
                    only_here.get(zone, 0))
                    for zone, members in sorted(by_zone.items())]


class _Zone(command.Command):
    """Base class of commands that take one zone."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('zone', metavar='ZONE', help='name of the zone')
        return parser

    def hosts(self, store: queries.Store, zone: str) -> set[str]:
        """Return the nodes of a zone.

        :raises CommandError: there are none.
        """
        hosts = {host for host, name in store.nodes.zones().items()
                 if zone and name == zone}
        if not hosts:
            raise command.CommandError(
                f'no node is in zone {zone!r}; "octavia-xdp-manage zone list" '
                'shows the zones of registered nodes')
        return hosts


class Drain(_Zone):
    """Take all nodes of a zone out of service, their flows first.

    It drains each node as "node drain" does. For nodes of the zone that have
    failed it also allows the removals that the budget does not ([placement]
    removal_budget_percent), so that load balancers leave a zone that is lost.
    VIPs that too few other nodes can take stay, as a last resort; those whose
    spread is require leave the zone as soon as another zone has them. "zone
    enable" undoes it.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        drain.add_arguments(parser)
        return parser

    def take_action(self, arguments: argparse.Namespace) -> None:
        store, zone = self.store(), arguments.zone
        hosts = self.hosts(store, zone)
        if not arguments.now:
            drain.settle(self, store, hosts - _dead(store),
                         arguments.settle_timeout)
        store.nodes.set_zone_in_service(zone, False)
        self._allow_removals(store, zone)
        if not arguments.wait:
            return
        waiting.until_none(
            self.app, f'leaving zone {zone}',
            lambda: _remaining(store, hosts),
            arguments.timeout, lambda remaining: (
                f'{len(remaining)} load balancers are still in zone {zone}, '
                'as a last resort: too few other nodes can take them, do not '
                'announce them yet, or no controller runs ("lb list"): '
                f'{drain.join_first(remaining)}'))

    def _allow_removals(self, store: queries.Store, zone: str) -> None:
        """Allow as many removals as the zone's failed nodes need."""
        conf = self.conf.placement
        needed = store.placements.on_failed_nodes(zone)
        left = removal_budget.allowance(
            sum(store.placements.load().values()), conf.removal_budget_percent,
            conf.removal_budget_min) - store.placements.removals_since(
                conf.removal_budget_period)
        if needed > left:
            store.placements.allow_removals(needed - left,
                                            conf.removal_budget_period)
            self.app.stdout.write(
                f'{needed} VIPs are on failed nodes of zone {zone}: '
                f'{needed - left} more removals are allowed than by '
                '[placement] removal_budget_percent.\n')


def _dead(store: queries.Store) -> set[str]:
    return {host for host, condition in store.nodes.conditions().items()
            if condition == 'dead'}


def _remaining(store: queries.Store, hosts: Iterable[str]) -> list[str]:
    """Return ids of load balancers on nodes, or that live ones have yet to
    remove."""
    dead = _dead(store)
    return sorted({key for host in hosts
                   for key in store.placements.remaining(host, host in dead)})


class Enable(_Zone):
    """Put all nodes of a zone into service, whatever took them out of it.

    Load balancers that are in too few zones get nodes of it, [placement]
    spread_moves_max at a time.
    """

    def take_action(self, arguments: argparse.Namespace) -> None:
        store = self.store()
        self.hosts(store, arguments.zone)
        store.nodes.set_zone_in_service(arguments.zone, True)
