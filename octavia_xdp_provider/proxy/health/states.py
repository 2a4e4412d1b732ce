# SPDX-License-Identifier: Apache-2.0
"""States of members, as the health checker's results and plans say."""

from collections.abc import Iterable
from collections.abc import Mapping
import threading

from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.health import queue_file
from octavia_xdp_provider.proxy.health import members


class States:
    """For any thread.

    A *restored* result (no probe has confirmed it since the health checker
    was started) counts only if no other one is known.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: dict[str, members.Plan] = {}
        # Key of a check → whether its target is up.
        self._is_up: dict[int, bool] = {}
        self._users: dict[int, set[str]] = {}

    def plan(self, plans: Mapping[str, members.Plan],
             results: Mapping[int, int]) -> None:
        """Take all plans, by load balancer.

        :param results: all that are known, by key of the check.
        """
        users: dict[int, set[str]] = {}
        for identity, plan in plans.items():
            for key in plan.monitored.values():
                users.setdefault(key, set()).add(identity)
        with self._lock:
            self._plans, self._users = dict(plans), users
            self._is_up = {key: is_up for key, is_up in self._is_up.items()
                           if key in users}
            self._take({key: verdict for key in users
                        if (verdict := results.get(key)) is not None})

    def take(self, results: Mapping[int, int]) -> set[str]:
        """Take verdicts by key; return the load balancers whose members have
        changed."""
        with self._lock:
            return self._take(results)

    def _take(self, results: Mapping[int, int]) -> set[str]:
        changed = set()
        for key, verdict in results.items():
            state = queue_file.state_of(verdict)
            is_up = state == queue_file.State.UP
            if (key not in self._users or state == queue_file.State.UNKNOWN
                    or self._is_up.get(key) == is_up
                    or (key in self._is_up
                        and not queue_file.is_verified(verdict))):
                continue
            self._is_up[key] = is_up
            changed |= self._users[key]
        return changed

    def reported(self, identity: str) -> dict[str, messages.MemberState]:
        """Return the states of monitored members by id."""
        return {member_id: 'unknown' if is_up is None else
                'up' if is_up else 'down'
                for member_id, is_up in self._monitored(identity)}

    def down(self, identity: str) -> frozenset[str]:
        """Return the members that are known to be down."""
        return frozenset(member_id for member_id, is_up
                         in self._monitored(identity) if is_up is False)

    def wanted(self, identity: str) -> dict[str, bool]:
        """Return whether HAProxy is to give a member no requests, by id.

        A monitored member of which nothing is known is left as it is: this
        agent may have been started again.
        """
        plan = self._plans.get(identity)
        if plan is None:
            return {}
        return {
            **dict.fromkeys(plan.enabled - plan.monitored.keys(), False),
            **{member_id: not is_up for member_id, is_up
               in self._monitored(identity) if is_up is not None},
            **dict.fromkeys(plan.disabled, True)}

    def _monitored(self, identity: str) -> Iterable[tuple[str, bool | None]]:
        plan = self._plans.get(identity)
        return [(member_id, self._is_up.get(key)) for member_id, key
                in plan.monitored.items()] if plan else []
