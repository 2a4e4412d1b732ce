# SPDX-License-Identifier: Apache-2.0
"""Orders members so that no project waits for another one's members."""

from collections.abc import Callable
from collections.abc import Iterator
import time

from octavia_xdp_provider.controller.neutron_ports import findings


class Turns:
    """Members in the order of their addition, by round robin of projects.

    Each project gets the same number of turns, however many members it has.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Projects in the order of their turns, the next one first. Members
        # with the time of their addition.
        self._of: dict[str, dict[findings.Wanted, float]] = {}

    def add(self, member: findings.Wanted) -> None:
        """Add a member at its project's end, unless it is there."""
        self._of.setdefault(member.project_id, {}).setdefault(
            member, self._clock())

    def discard(self, member: findings.Wanted) -> None:
        members = self._of.get(member.project_id, {})
        members.pop(member, None)
        if not members:
            self._of.pop(member.project_id, None)

    def waiting(self) -> tuple[int, float]:
        """Return how many members there are, and for how many seconds the
        oldest has been."""
        added = [next(iter(members.values()))
                 for members in self._of.values()]
        return (sum(map(len, self._of.values())),
                self._clock() - min(added) if added else 0.0)

    def next(self, number: int) -> Iterator[findings.Wanted]:
        """Yield at most ``number`` members, which stay. Their projects' next
        turns come after those of other projects."""
        rounds = {project: iter(members)
                  for project, members in self._of.items()}
        while rounds and number > 0:
            for project, members in list(rounds.items())[:number]:
                member = next(members, None)
                if member is None:
                    del rounds[project]
                    continue
                number -= 1
                self._of[project] = self._of.pop(project)
                yield member
