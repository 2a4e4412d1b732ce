# SPDX-License-Identifier: Apache-2.0
"""Command about what projects have of what ``[limits]`` lets them have."""

from octavia_xdp_provider.controller.store import limits
from octavia_xdp_provider.manage import command

COLUMNS = ('project', 'load_balancers', 'members', 'bytes', 'largest_members',
           'largest_bytes', 'at_limit')


class List(command.List):
    """List projects by what their load balancers take of the controllers.

    Members are those of all pools, bytes those of documents, counted in steps
    of 16 KiB. The largest are those of one load balancer. At limit are the
    options of [limits] of which nine tenths are used: of these the API
    refuses what grows beyond.
    """

    def take_action(self, arguments):
        allowed = limits.of(self.conf)
        rows = [[*usage, ', '.join(_at_limit(usage, allowed))]
                for usage in self.store().usage_of_projects()]
        return COLUMNS, sorted(rows, key=lambda row: (-row[3], row[0]))


def _at_limit(usage, allowed):
    for option, number in (
            ('project_members', usage.members),
            ('project_bytes', usage.bytes),
            ('load_balancer_members', usage.largest_members),
            ('load_balancer_bytes', usage.largest_bytes)):
        limit = getattr(allowed, option)
        if limit and number * 10 >= limit * 9:
            yield option
