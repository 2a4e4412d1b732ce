# SPDX-License-Identifier: Apache-2.0
"""When a HAProxy that has died is started again, and how old ones end."""

from octavia_xdp_provider.proxy.launcher import cgroups
from octavia_xdp_provider.proxy.launcher import machine as machines

# Seconds until what was refused, or does not stay alive, is tried again.
RETRY_S = 30.0
# Seconds after which a start counts as a good one.
STABLE_S = 10.0
# Seconds until a process of what is no longer wanted is killed, with the
# connections that it has. Packets of these do not arrive any more.
REMOVED_STOP_S = 5.0
_FIRST_DELAY_S = 0.1


class Attempts:
    """Failed starts in a row: the first is repeated at once, further ones
    after growing delays.

    :param failures_max: with more of them, the load balancer has failed.
    """

    def __init__(self, failures_max: int) -> None:
        self._max = failures_max
        self._failures = 0
        self._started_at: float | None = None
        self._is_running = False
        self.retry_at = 0.0

    @property
    def failed(self) -> bool:
        return self._failures > self._max and not self._is_running

    def reset(self) -> None:
        """Begin again: something else is to be started."""
        self._failures = 0
        self.retry_at = 0.0

    def started(self, now: float) -> None:
        self._started_at = now
        self._is_running = True

    def died(self, now: float) -> None:
        """Note that what had started has died."""
        if self._started_at is None or now >= self._started_at + STABLE_S:
            self._failures = 0
        self.failed_to_start(now)

    def failed_to_start(self, now: float) -> None:
        self._failures += 1
        self._is_running = False
        delay_s = 0.0
        if self.failed:
            delay_s = RETRY_S
        elif self._failures > 1:
            delay_s = min(RETRY_S, _FIRST_DELAY_S * 2 ** (self._failures - 2))
        self.retry_at = now + delay_s


class Leaving:
    """Generations that were replaced: they end with their last connection, or
    when their time is over."""

    def __init__(self, identity: str, machine: machines.Machine) -> None:
        self._identity = identity
        self._machine = machine
        self._until: dict[int, float] = {}
        self._told: set[int] = set()

    def retire(self, groups: dict[int, list[cgroups.Process]],
               kept: set[int], stop_after_s: float, now: float) -> bool:
        """Let all generations end but those that are kept.

        :returns: whether there are any.
        """
        others = groups.keys() - kept
        self._until = {generation: until for generation, until
                       in self._until.items() if generation in others}
        self._told &= others
        for generation in others:
            top = cgroups.master(groups[generation])
            if top is not None:
                self._until.setdefault(generation, now + stop_after_s)
                if generation not in self._told and stop_after_s and (
                        self._machine.stop(self._identity, generation, top)):
                    self._told.add(generation)
            if now >= self._until.get(generation, now):
                self._machine.kill(self._identity, generation)
        return bool(others)
