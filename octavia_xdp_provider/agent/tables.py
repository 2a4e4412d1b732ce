# SPDX-License-Identifier: Apache-2.0
"""What the tables of the node say, read again where they have changed."""

import typing

from octavia_xdp_provider.agent import totals
from octavia_xdp_provider.node import datapath


class Look(typing.NamedTuple):
    """Keys of services that came, went or are others since the last look."""

    changed: set
    gone: set


class Tables:
    """Summaries of all services, and the members of those that are asked
    for; belongs to the worker's thread."""

    def __init__(self, dataplane):
        self._datapath = dataplane
        self._members = {}  # key → MemberName → MemberState
        self.services = {}  # key → datapath.Summary
        self.totals = totals.Totals()

    def look(self):
        """Find out what has changed.

        :raises DatapathError: the datapath cannot be reached at all.
        """
        before, self.services = self.services, self._datapath.summaries()
        self.totals.look(self.services)
        gone = before.keys() - self.services.keys()
        changed = {key for key, one in self.services.items()
                   if key not in before
                   or before[key].version != one.version
                   or before[key].enabled != one.enabled}
        for key in changed | gone:
            self._members.pop(key, None)
        return Look(changed, gone)

    def members(self, key):
        """datapath.MemberName → datapath.MemberState; empty if there is no
        service."""
        found = self._members.get(key)
        if found is None:
            try:
                found = {member.name: member
                         for member in self._datapath.members(key)}
            except (datapath.DatapathError, KeyError):
                return {}
            self._members[key] = found
        return found
