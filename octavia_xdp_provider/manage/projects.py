# SPDX-License-Identifier: Apache-2.0
"""The command that lists how much of ``[limits]`` projects use."""

import argparse
from collections.abc import Iterator
from typing import Any

from octavia_xdp_provider.controller.store import limits
from octavia_xdp_provider.manage import command

COLUMNS = ('project', 'load_balancers', 'members', 'bytes', 'largest_members',
           'largest_bytes', 'at_limit')


class List(command.List):
    """List projects by the resources that their load balancers use.

    "members" counts those of all pools, "bytes" the size of documents in
    steps of 16 KiB. The "largest" columns are those of one load balancer.
    "at_limit" names the options of [limits] of which nine tenths are used;
    the API refuses changes that exceed a limit.
    """

    def take_action(self, arguments: argparse.Namespace) -> command.Table:
        allowed = limits.of(self.conf)
        rows = [[*usage, ', '.join(at_limit(usage, allowed))]
                for usage in self.store().figures.usage_of_projects()]
        return COLUMNS, sorted(rows, key=lambda row: (-row[3], row[0]))


def is_nearly_used(used: int, most: int) -> bool:
    """Return whether nine tenths are used; never of a limit of 0, none."""
    return bool(most) and used * 10 >= most * 9


def at_limit(usage: Any, allowed: Any) -> Iterator[str]:
    """Yield the options of [limits] that are nearly used up."""
    for option, number in (
            ('project_members', usage.members),
            ('project_bytes', usage.bytes),
            ('load_balancer_members', usage.largest_members),
            ('load_balancer_bytes', usage.largest_bytes)):
        limit = getattr(allowed, option)
        if is_nearly_used(number, limit):
            yield option
