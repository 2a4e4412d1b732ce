# SPDX-License-Identifier: Apache-2.0
"""Whether HAProxy accepts what is wanted of a load balancer.

``haproxy -c`` judges as the load balancer's uid and in its view, within its
limits and with its sockets.
"""

import math
from typing import NamedTuple

from oslo_log import log as logging

from octavia_xdp_provider.contracts import proxy_launch
from octavia_xdp_provider.proxy.launcher import attempts
from octavia_xdp_provider.proxy.launcher import cgroups
from octavia_xdp_provider.proxy.launcher import machine as machines
from octavia_xdp_provider.proxy.launcher import orders
from octavia_xdp_provider.proxy.launcher import sockets

LOG = logging.getLogger(__name__)

# Seconds that a check, a start or a reload may take.
PENDING_MAX_S = 30.0
# Seconds until something that cannot be checked now is tried again.
_LATER_S = 0.5


class Pending(NamedTuple):
    """Something that was begun, and by when it must be done."""

    launch: proxy_launch.Launch
    until: float
    generation: int = machines.CHECK
    workers: frozenset[cgroups.Process] = frozenset()


class Checks:
    """The check of one load balancer that runs, and the last results.

    :ivar pending: what is being checked.
    :ivar accepted: what was accepted last, unless something else is wanted.
    :ivar problem: why something that is or was wanted cannot be used.
    :ivar judged: hash of its configuration.
    :ivar due: when to call ``finish`` or ``begin`` again without an event.
    """

    def __init__(self, identity: str, machine: machines.Machine) -> None:
        self._identity = identity
        self._machine = machine
        self.pending: Pending | None = None
        self.accepted: proxy_launch.Launch | None = None
        self.problem: str | None = None
        self.judged: str | None = None
        self.due = math.inf
        # What was refused, and until when that is not repeated.
        self._refused: Pending | None = None

    def finish(self, now: float) -> bool:
        """Return whether a check has ended now, with success."""
        self.due = math.inf
        check = self.pending
        if check is None:
            return False
        status = self._machine.status(self._identity, machines.CHECK)
        if status is None and now < check.until:
            self.due = check.until
            return False
        text = self._machine.text(self._identity, machines.CHECK)
        self._end()
        if status == 0:
            self.accepted, self._refused = check.launch, None
            self.problem = None
            return True
        self.refuse(check.launch, text or (
            'haproxy -c does not end' if status is None
            else f'haproxy -c ended with status {status}'), now)
        return False

    def begin(self, wanted: proxy_launch.Launch, now: float) -> None:
        """Check what is wanted, unless the result is known."""
        if self.accepted and content(self.accepted) == content(wanted):
            return
        self.accepted = None
        if self.pending is not None:
            if content(self.pending.launch) == content(wanted):
                return
            self._end()
        if self._refused is not None and now < self._refused.until and (
                content(self._refused.launch) == content(wanted)):
            self.due = self._refused.until
            return
        owner = self._machine.user_of(wanted['number'], self._identity)
        if owner is not None:
            self._put_off(wanted, f'number {wanted["number"]} is in use by '
                          f'{owner}', now)
            return
        try:
            self._machine.take(self._identity, wanted)
            # Clients must not connect to what nobody may ever serve.
            self._machine.open_sockets(
                self._identity, sockets.endpoints(wanted), listen=False)
            self._machine.check(self._identity, wanted)
        except (orders.NotWhole, OSError) as error:
            self._put_off(wanted, str(error), now)
        else:
            self.pending = Pending(wanted, now + PENDING_MAX_S)
            self.due = self.pending.until

    def _put_off(self, launch: proxy_launch.Launch, problem: str, now: float
                 ) -> None:
        """Note why something cannot be checked now."""
        self.problem, self.judged = problem, launch['configuration_hash']
        self.due = now + _LATER_S

    def refuse(self, launch: proxy_launch.Launch, text: str, now: float
               ) -> None:
        """Note that something cannot be used."""
        if self.problem != text:
            LOG.error('%s: HAProxy refuses its configuration: %s',
                      self._identity, text)
        self._refused = Pending(launch, now + attempts.RETRY_S)
        self.accepted = None
        self.problem, self.judged = text, launch['configuration_hash']
        self.due = self._refused.until

    def cancel(self, problem: str | None, judged: str | None = None) -> None:
        """End a check, as nothing is to be found out."""
        self._end()
        self._refused = None
        self.problem, self.judged = problem, judged

    def forget(self) -> None:
        self.cancel(None)
        self.accepted = None

    def _end(self) -> None:
        if self.pending is not None:
            self._machine.kill(self._identity, machines.CHECK)
            self._machine.discard(self._identity, machines.CHECK)
        self.pending = None


def frame(launch: proxy_launch.Launch) -> tuple[object, ...]:
    """Return what a process cannot change while it runs."""
    return (launch['number'], launch['sockets'], launch['connections'],
            launch['threads'])


def content(launch: proxy_launch.Launch) -> tuple[object, ...]:
    """Return what takes a reload, or a new generation, to change."""
    return (frame(launch), launch['configuration_hash'],
            launch['certificates'])
