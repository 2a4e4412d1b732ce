# SPDX-License-Identifier: Apache-2.0
"""Commands about which load balancer is on which LB node."""

from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import placement_state


class List(command.List):
    """List which load balancer is on which node, and how far it is."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('--node', metavar='HOST',
                            help='on this node only')
        return parser

    def take_action(self, arguments):
        store = self.store()
        balancers = {row.id: row for row in store.load_balancers()}
        rows = []
        for row in store.placements():
            if arguments.node not in (None, row.host):
                continue
            balancer = balancers.get(row.load_balancer_id)
            rows.append((
                row.load_balancer_id,
                balancer.document['vip_address'] if balancer else None,
                row.host,
                balancer.generation if balancer else None,
                row.synced_generation,
                placement_state.word(row, balancer),
                row.error))
        return ('load_balancer', 'vip', 'host', 'wanted_generation',
                'synced_generation', 'state', 'error'), rows


class AllowRemovals(command.Command):
    """Let VIPs leave failed nodes beyond the budget of removals."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('--count', type=int, required=True,
                            help='how many, as the controller\'s log says')
        return parser

    def take_action(self, arguments):
        if arguments.count < 1:
            raise command.NotDone(
                f'--count is {arguments.count}; use 1 or more')
        self.store().allow_removals(arguments.count,
                                    self.conf.placement.removal_budget_span)
