# SPDX-License-Identifier: Apache-2.0
"""The command that evens out the number of load balancers on nodes."""

import argparse
import time

from octavia_xdp_provider.controller.scheduler import balancing
from octavia_xdp_provider.controller.scheduler import service
from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import waiting


class Rebalance(command.List):
    """Spread load balancers over zones and even out the load of the nodes.

    With --dry-run it lists the moves that the scheduler would make now, in
    their order, and changes nothing. Load balancers whose nodes can be in more
    zones ([placement] spread) come first; no move makes a spread worse, so
    nodes of a zone with fewer nodes may keep more load balancers.

    Without, it makes them, at most --moves at a time, and lists those that it
    has begun. The controllers do the same by themselves, slowly, unless
    [placement] spread_moves_max and rebalance_moves_max are 0. Each move loads
    and announces the load balancer on the new node first, then drains it from
    the old one. If the command is interrupted, the controllers finish the
    moves that have begun.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('--dry-run', action='store_true',
                            help='only list the moves')
        parser.add_argument('--moves', type=int, default=1, metavar='N',
                            help='load balancers to move at a time '
                                 '(default: 1)')
        waiting.add_timeout(parser, '--timeout', 3600.0,
                            'begin no more moves after so long')
        return parser

    def take_action(self, arguments: argparse.Namespace) -> command.Table:
        if arguments.moves < 1:
            raise command.CommandError(
                f'--moves is {arguments.moves}; use 1 or more')
        store = self.store()
        balancer = balancing.Balancing(service.Scheduler(self.conf, store))
        steps = balancer.plan()
        if arguments.dry_run:
            return ('step', 'load_balancer', 'from', 'to'), [
                (number, step.load_balancer_id, ', '.join(step.sources),
                 step.target) for number, step in enumerate(steps, 1)]
        rows: list[tuple[int, str, str]] = []
        deadline = time.monotonic() + arguments.timeout
        with waiting.progress_bar(self.app, len(steps), 'moves') as bar:
            while time.monotonic() < deadline:
                # Query this first: a move that ends in between makes room
                # for another one.
                is_busy = store.balance.moves_under_way(
                    self.conf.placement.replicas)
                moved = balancer.mend(arguments.moves)
                if not moved and (
                        step := balancer.rebalance(arguments.moves)):
                    moved = [step]
                if moved:
                    store.work.mark([key for key, _ in moved])
                    rows += ((number, *step) for number, step
                             in enumerate(moved, len(rows) + 1))
                    bar.update(len(moved))
                elif is_busy:
                    time.sleep(waiting.POLL_S)
                else:
                    break
        return ('step', 'load_balancer', 'to'), rows
