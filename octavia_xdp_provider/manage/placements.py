# SPDX-License-Identifier: Apache-2.0
"""Commands for placements: which load balancer is on which node."""

import argparse

from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import placement_state


class List(command.List):
    """List placements of load balancers on nodes, with their states."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('--node', metavar='HOST',
                            help='only placements on this node')
        return parser

    def take_action(self, arguments: argparse.Namespace) -> command.Table:
        store = self.store()
        load_balancers = {row.id: row for row in store.load_balancers.select()}
        rows = []
        for placement in store.placements.select():
            if arguments.node not in (None, placement.host):
                continue
            load_balancer = load_balancers.get(placement.load_balancer_id)
            rows.append((
                placement.load_balancer_id,
                load_balancer and load_balancer.document['vip_address'],
                placement.host, placement.role,
                load_balancer and load_balancer.generation,
                placement.synced_generation, placement_state.classify(
                    placement, load_balancer), placement.error))
        return ('load_balancer', 'vip', 'host', 'role', 'wanted_generation',
                'synced_generation', 'state', 'error'), rows


class AllowRemovals(command.Command):
    """Let more VIPs leave failed nodes than the removal budget allows."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('--count', type=int, required=True,
                            help="how many; the controller's log has the "
                                 'number')
        return parser

    def take_action(self, arguments: argparse.Namespace) -> None:
        if arguments.count < 1:
            raise command.CommandError(
                f'--count is {arguments.count}; use 1 or more')
        self.store().placements.allow_removals(
            arguments.count, self.conf.placement.removal_budget_period)
