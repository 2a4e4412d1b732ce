# SPDX-License-Identifier: Apache-2.0
"""One load balancer's HAProxy: compares what runs with what is wanted.

Each ``step`` looks at what is there and does what brings it nearer to what is
wanted. Nothing is kept that cannot be seen or read again, but for counts and
times: a launcher that starts again goes on where the last one was.

A change of configuration is a reload of the running master. What a process
cannot change while it runs, its sockets above all, takes a new *generation*:
a second master takes over the sockets, and then the first is told to end with
its last connection.
"""

import math

from oslo_log import log as logging

from octavia_xdp_provider.contracts import proxy_launch
from octavia_xdp_provider.proxy.launcher import attempts
from octavia_xdp_provider.proxy.launcher import cgroups
from octavia_xdp_provider.proxy.launcher import checks
from octavia_xdp_provider.proxy.launcher import files
from octavia_xdp_provider.proxy.launcher import machine as machines
from octavia_xdp_provider.proxy.launcher import orders
from octavia_xdp_provider.proxy.launcher import sockets
from octavia_xdp_provider.proxy.launcher import tokens

LOG = logging.getLogger(__name__)

# Seconds between two looks at what no event tells: whether the worker of a
# new configuration is there; whether something can be tried again.
SOON_S = 0.02
LATER_S = 0.5

Groups = dict[int, list[cgroups.Process]]


class Proxy:
    """What the launcher knows of one load balancer.

    :ivar order: what is wanted; None: nothing.
    :ivar roots: processes whose end is a reason for the next step.
    """

    def __init__(self, identity: str, machine: machines.Machine,
                 failed_starts: int) -> None:
        self.identity = identity
        self.order: orders.Order | None = None
        self.roots: set[int] = set()
        self._machine = machine
        self._attempts = attempts.Attempts(failed_starts)
        self._leaving = attempts.Leaving(identity, machine)
        self._record = machine.load(identity)
        self._adopted = False
        self._checks = checks.Checks(identity, machine)
        self._starting: checks.Pending | None = None
        self._reloading: checks.Pending | None = None
        # What is wrong with what runs.
        self._trouble: str | None = None
        self._is_dead = False
        # Whether what runs lacks a socket, or no longer accepts from it.
        self._is_stale = False
        self._restarts = 0
        self._state: proxy_launch.State | None = None
        self._next = math.inf
        self._claim(False)

    def elements(self) -> set[tuple[int, str, int]]:
        """Return what it may connect to, as of firewall.Element."""
        return {(launch['number'], *sockets.endpoint(member))
                for launch in (self._wanted(), self._served()) if launch
                if self._machine.owns(launch['number'], self.identity)
                for member in launch['members']}

    def tokens(self) -> set[tokens.Token]:
        """Return the addresses that stand for members."""
        served, wanted = self._served(), self._wanted()
        # Those that move have their new tunnel at once.
        result = {token.address: token for launch in (served, wanted) if launch
                  for token in tokens.of(launch)}
        return set(result.values())

    def addresses(self) -> set[str]:
        """Return the addresses at which it listens, or would: without it
        clients are refused at once."""
        return {address for launch in (self._wanted(), self._served())
                for address, _ in sockets.endpoints(launch)}

    def step(self, now: float) -> float:
        """Bring what runs nearer to what is wanted.

        :returns: when to call this again if no event is a reason before.
        :raises OSError: something failed; it is to be tried again.
        """
        self._next = math.inf
        if self._checks.finish(now):
            self._attempts.reset()
        groups = self._machine.observe(self.identity)
        if not self._adopted:
            self._adopt(groups)
        self._finish_start(groups, now)
        self._finish_reload(groups, now)
        if self.order is None:
            self._end(groups, now)
        else:
            master = self._master(groups)
            if master is None:
                self._bury(groups, now)
            self._judge(master, now)
            if not self._starting and not self._reloading:
                self._act(groups, master, now)
            self._tidy(groups, now)
        self._note()
        return min(self._next, self._checks.due)

    def is_gone(self) -> bool:
        """Return whether nothing of it is left, after the last step."""
        if self.order is not None or self.roots:
            return False
        return self._machine.remove(self.identity)

    # What is there.

    def _adopt(self, groups: Groups) -> None:
        """Take the sockets of what runs, and end an earlier check."""
        count = max([len(launch['sockets']) for launch
                     in (self._wanted(), self._served()) if launch],
                    default=0)
        for processes in groups.values():
            top = cgroups.master(processes)
            if top is not None:
                self._machine.take_sockets(self.identity, top.pid, count)
        self._machine.kill(self.identity, machines.CHECK)
        self._adopted = True

    def _wanted(self) -> proxy_launch.Launch | None:
        return self.order.launch if self.order else None

    def _served(self) -> proxy_launch.Launch | None:
        return self._record.launch if self._record else None

    def _begun(self) -> list[proxy_launch.Launch]:
        """Return what serves, or is about to."""
        pending = (self._checks.pending, self._starting, self._reloading)
        launches = [self._served(), self._checks.accepted,
                    *(begun.launch for begun in pending if begun)]
        return [launch for launch in launches if launch]

    def _master(self, groups: Groups) -> cgroups.Process | None:
        """Return the master that serves, if it is alive."""
        if self._record is None:
            return None
        _, pid, started = (0, *self._record.master[::2])
        return next((process for process
                     in groups.get(self._record.generation, ())
                     if (process.pid, process.started) == (pid, started)),
                    None)

    def _is_served(self, launch: proxy_launch.Launch | None,
                   master: cgroups.Process | None) -> bool:
        served = self._served()
        return (master is not None and launch is not None
                and served is not None and not self._is_stale
                and checks.content(served) == checks.content(launch))

    # What was begun.

    def _finish_start(self, groups: Groups, now: float) -> None:
        start = self._starting
        if start is None:
            return
        processes = groups.get(start.generation, [])
        top = cgroups.master(processes)
        if top is not None and cgroups.workers(processes):
            self._starting = None
            self._is_dead = self._is_stale = False
            self._record = files.Record(start.generation, top, start.launch)
            self._machine.save(self.identity, self._record)
            self._attempts.started(now)
            LOG.info('%s: HAProxy %s serves.', self.identity, top.pid)
        elif top is not None and now < start.until:
            self._again(SOON_S, now)
        else:
            self._machine.kill(self.identity, start.generation)
            self._starting = None
            text = self._machine.text(self.identity, start.generation)
            if self._master(groups) is not None:
                self._checks.refuse(start.launch, text or
                                    'HAProxy did not start', now)
            else:
                self._trouble = text or 'HAProxy did not start'
                self._attempts.failed_to_start(now)

    def _finish_reload(self, groups: Groups, now: float) -> None:
        pending, record = self._reloading, self._record
        if pending is None or record is None:
            return
        if self._master(groups) is None:
            self._reloading = None
        elif cgroups.workers(groups[record.generation]) - pending.workers:
            self._reloading = None
            self._record = record._replace(launch=pending.launch)
            self._machine.save(self.identity, self._record)
            LOG.info('%s: HAProxy %s serves a new configuration.',
                     self.identity, record.master.pid)
        elif now < pending.until:
            self._again(SOON_S, now)
        else:
            self._reloading = None
            self._checks.refuse(pending.launch, self._machine.text(
                self.identity, record.generation) or 'HAProxy did not reload',
                now)
            self._machine.install(self.identity, record.generation,
                                  record.launch)

    # What is wanted.

    def _judge(self, master: cgroups.Process | None, now: float) -> None:
        """Find out whether what is wanted can be used."""
        assert self.order is not None
        wanted = self.order.launch
        if wanted is None:
            self._checks.cancel(self.order.problem, self.order.hash)
        elif self._is_served(wanted, master):
            self._checks.cancel(None)
            self._trouble = None
            self._tune(wanted)
        else:
            self._checks.begin(wanted, now)

    def _act(self, groups: Groups, master: cgroups.Process | None,
             now: float) -> None:
        """Start or reload, if there is something to be served."""
        served, accepted = self._served(), self._checks.accepted
        if master is None:
            launch = accepted or served
            if launch and now >= self._attempts.retry_at:
                self._start(groups, launch, now)
            elif launch:
                self._again(self._attempts.retry_at - now, now)
            return
        assert served is not None
        self._machine.limit(self.identity, served)
        self._is_stale |= bool(self._open(served, now))
        launch = accepted or served
        if self._is_served(launch, master):
            return
        if self._is_stale or checks.frame(served) != checks.frame(launch):
            self._start(groups, launch, now)
        else:
            self._reload(groups, master, launch, now)

    def _reload(self, groups: Groups, master: cgroups.Process,
                launch: proxy_launch.Launch, now: float) -> None:
        assert self._record is not None
        generation = self._record.generation
        self._machine.install(self.identity, generation, launch)
        if self._machine.reload(self.identity, generation, master):
            self._reloading = checks.Pending(
                launch, now + checks.PENDING_MAX_S, generation,
                frozenset(cgroups.workers(groups[generation])))
        self._again(SOON_S, now)

    def _start(self, groups: Groups, launch: proxy_launch.Launch, now: float
               ) -> None:
        if self._open(launch, now) is None:
            return
        if self._is_dead:
            self._restarts += 1
        generation = 1 + max(*groups, machines.CHECK,
                             self._record.generation if self._record else 0)
        self._machine.start(self.identity, generation, launch)
        self._starting = checks.Pending(launch, now + checks.PENDING_MAX_S,
                                        generation)
        self._again(SOON_S, now)

    def _open(self, launch: proxy_launch.Launch, now: float
              ) -> set[sockets.Endpoint] | None:
        """Open the sockets that are missing or do not listen; return them,
        None if they cannot be opened."""
        try:
            return self._machine.open_sockets(
                self.identity, sockets.endpoints(launch), listen=True)
        except OSError as error:
            self._trouble = str(error)
            self._again(LATER_S, now)
            return None

    def _tune(self, launch: proxy_launch.Launch) -> None:
        """Note what changes without HAProxy."""
        if self._record and self._record.launch != launch:
            self._record = self._record._replace(launch=launch)
            self._machine.save(self.identity, self._record)

    # What has died or must end.

    def _bury(self, groups: Groups, now: float) -> None:
        """Note that what served is dead, and end what it has left."""
        record = self._record
        if record is None:
            return
        if record.generation in groups:
            self._machine.kill(self.identity, record.generation)
            self._again(SOON_S, now)
        if self._is_dead:
            return
        self._is_dead = True
        self._trouble = self._machine.text(
            self.identity, record.generation) or 'HAProxy has died'
        LOG.error('%s: HAProxy %s has died. %s', self.identity,
                  record.master.pid, self._trouble)
        self._attempts.died(now)

    def _end(self, groups: Groups, now: float) -> None:
        """End what is no longer wanted."""
        if self._record:
            self._machine.save(self.identity, None)
        self._checks.forget()
        self._starting = self._reloading = self._trouble = None
        self._is_dead = False
        self._machine.keep_sockets(self.identity, ())
        if self._leaving.retire(groups, set(), attempts.REMOVED_STOP_S, now):
            self._again(LATER_S, now)
        self._record = None

    def _tidy(self, groups: Groups, now: float) -> None:
        """End and remove what neither serves nor is about to."""
        kept = {begun.generation for begun in (
            self._checks.pending, self._starting, self._record) if begun}
        launches = self._begun()
        if self._leaving.retire(groups, kept, max(
                [launch['stop_after_s'] for launch in launches], default=0),
                now):
            self._again(LATER_S, now)
        if not self._starting and not self._reloading:
            self._machine.clean(self.identity, kept, launches)
        # A socket that is open while nobody will accept its connections would
        # look alive.
        if self._attempts.failed and not self._starting:
            launches = []
        self._machine.keep_sockets(self.identity, {
            point for launch in launches
            for point in sockets.endpoints(launch)})

    # What others are told.

    def _note(self) -> None:
        groups = self._machine.observe(self.identity)
        self.roots = {top.pid for processes in groups.values()
                      if (top := cgroups.master(processes))}
        self._claim(bool(groups))
        master, served = self._master(groups), self._served()
        if master is None:
            served = None
        state: proxy_launch.State = {
            'phase': self._phase(master),
            'configuration_hash': (
                served['configuration_hash'] if served else None),
            'certificates': served['certificates'] if served else None,
            'pid': master.pid if master else None,
            'restarts': self._restarts,
            'listening': self._machine.is_listening(self.identity),
            'error': self._checks.problem or self._trouble,
            'judged_hash': self._judged_hash()}
        if state != self._state:
            self._machine.write_state(self.identity, state)
            self._state = state

    def _judged_hash(self) -> str | None:
        if self._checks.problem:
            return self._checks.judged
        launch = self._checks.accepted or self._served()
        return launch['configuration_hash'] if launch else None

    def _phase(self, master: cgroups.Process | None) -> proxy_launch.Phase:
        if self.order is None:
            return 'stopping'
        if self._attempts.failed:
            return 'failed'
        if self._checks.problem:
            return 'refused'
        return 'running' if master else 'waiting'

    def _claim(self, is_alive: bool) -> None:
        """Claim the uids that its processes have, or are about to have."""
        self._machine.claim(self.identity, {
            launch['number'] for launch in self._begun()}, is_alive)

    def _again(self, delay_s: float, now: float) -> None:
        self._next = min(self._next, now + delay_s)
