# SPDX-License-Identifier: Apache-2.0
"""A cache of the node's tables, which reads again what has changed."""

import typing

from octavia_xdp_provider.agent import totals
from octavia_xdp_provider.node import datapath

Members = dict[datapath.MemberName, datapath.MemberState]


class Look(typing.NamedTuple):
    """Keys of services that are new, changed or gone since the last look."""

    changed: set[datapath.Key]
    gone: set[datapath.Key]


class Tables:
    """Summaries of all services, and their members on demand; ``look`` and
    ``members`` are for the worker's thread only."""

    def __init__(self, dataplane: datapath.Datapath) -> None:
        self._datapath = dataplane
        self._members: dict[datapath.Key, Members] = {}
        self.services: dict[datapath.Key, datapath.Summary] = {}
        self.totals = totals.Totals()

    def look(self) -> Look:
        """Read the summaries; return the Look of what has changed.

        :raises DatapathError: the datapath cannot be reached at all.
        """
        before, self.services = self.services, self._datapath.summaries()
        self.totals.look(self.services)
        gone = before.keys() - self.services.keys()
        changed = {key for key, summary in self.services.items()
                   if key not in before
                   or before[key].version != summary.version
                   or before[key].enabled != summary.enabled}
        for key in changed | gone:
            self._members.pop(key, None)
        return Look(changed, gone)

    def members(self, key: datapath.Key) -> Members:
        """Return the members of a service; empty if there is none."""
        members = self._members.get(key)
        if members is None:
            try:
                members = {member.name: member
                           for member in self._datapath.members(key)}
            except (datapath.DatapathError, KeyError):
                return {}
            self._members[key] = members
        return members
