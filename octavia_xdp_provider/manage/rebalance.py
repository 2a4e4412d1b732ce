# SPDX-License-Identifier: Apache-2.0
"""The command that evens out the number of load balancers on nodes."""

import time

from octavia_xdp_provider.controller.scheduler import service
from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import waiting


class Rebalance(command.List):
    """Even out the load of the nodes, or show how that would be done.

    With --dry-run: lists the moves that the scheduler would make, in their
    order, from the nodes and placements as they are now; nothing changes.

    Without: makes them, at most --moves at a time, and lists those that it
    has begun. The controllers do the same by themselves, slowly, unless
    [placement] rebalance_moves_max is 0. Each move loads and announces the
    load balancer on the new node first, and drains it from the old one. If
    the command is interrupted, moves that have begun are finished by the
    controllers.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('--dry-run', action='store_true',
                            help='only show the plan')
        parser.add_argument('--moves', type=int, default=1, metavar='N',
                            help='load balancers that are moved at a time '
                                 '(default: 1)')
        parser.add_argument('--timeout', type=float, default=3600.0,
                            metavar='SECONDS',
                            help='begin no move after so long (default: '
                                 '3600)')
        return parser

    def take_action(self, arguments):
        if arguments.moves < 1:
            raise command.NotDone(
                f'--moves is {arguments.moves}; use 1 or more')
        store = self.store()
        scheduler = service.Scheduler(self.conf, store)
        steps = scheduler.plan()
        if arguments.dry_run:
            return ('step', 'load_balancer', 'from', 'to'), [
                (number, step.load_balancer_id, ', '.join(step.sources),
                 step.target) for number, step in enumerate(steps, 1)]
        done = []
        deadline = time.monotonic() + arguments.timeout
        with waiting.bar(self.app, len(steps), 'moves') as shown:
            while time.monotonic() < deadline:
                # Asked before: what ends meanwhile makes room for another.
                busy = store.under_way(self.conf.placement.replicas)
                moved = scheduler.rebalance(arguments.moves)
                if moved is not None:
                    store.mark([moved[0]])
                    done.append((len(done) + 1, *moved))
                    shown.update()
                elif busy:
                    time.sleep(waiting.POLL_S)
                else:
                    break
        return ('step', 'load_balancer', 'to'), done
