# SPDX-License-Identifier: Apache-2.0
"""The launcher: makes the HAProxy processes of a node be as wanted.

It is a small process with root's rights, so that the agent, which talks to
the network, needs none. It reads the agent's directory, and writes what runs
into another one. Events say where to look, and a look at everything at
intervals is what it relies on.
"""

from collections.abc import Callable
import contextlib
import fcntl
import os
import select
import time

from inotify_simple import flags
from inotify_simple import INotify
from oslo_config import cfg
from oslo_log import log as logging

from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.contracts import proxy_launch
from octavia_xdp_provider.process import monitoring
from octavia_xdp_provider.proxy.launcher import cgroups
from octavia_xdp_provider.proxy.launcher import files
from octavia_xdp_provider.proxy.launcher import firewall
from octavia_xdp_provider.proxy.launcher import machine
from octavia_xdp_provider.proxy.launcher import metrics
from octavia_xdp_provider.proxy.launcher import namespace
from octavia_xdp_provider.proxy.launcher import orders
from octavia_xdp_provider.proxy.launcher import proxy
from octavia_xdp_provider.proxy.launcher import sockets
from octavia_xdp_provider.proxy.launcher import tokens

LOG = logging.getLogger(__name__)

# Interval of looks at everything, the longest delay after a lost event.
RESCAN_S = 5.0
RETRY_S = 1.0
# Interval of comparing nftables and routes with the kernel's.
COMPARE_S = 60.0
_CHANGED = (flags.CREATE | flags.DELETE | flags.MOVED_TO | flags.MOVED_FROM
            | flags.CLOSE_WRITE | flags.DONT_FOLLOW | flags.ONLYDIR)
_LOST = flags.Q_OVERFLOW | flags.UNMOUNT


class Proxies:
    """All load balancers of the node.

    :param read: returns what is wanted of one, None if nothing is.
    :param admit: called with all that HAProxy processes may connect to, all
        addresses of load balancers, and all tokens, before one starts or
        changes.
    """

    def __init__(self, actor: machine.Machine, failed_starts: int,
                 read: Callable[[str], orders.Order | None],
                 admit: Callable[[set[firewall.Element], set[str],
                                  set[tokens.Token]], None]) -> None:
        self._machine = actor
        self._failed_starts = failed_starts
        self._read = read
        self._admit = admit
        self._proxies: dict[str, proxy.Proxy] = {}
        self._due: dict[str, float] = {}
        self._complained: set[str] = set()
        self._ways: dict[str, tuple[set[firewall.Element], set[str],
                                    set[tokens.Token]]] = {}
        self._is_admitted = False

    def look(self, identities: set[str], now: float) -> None:
        """Read what is wanted of some; it is made so by the next ``step``."""
        for identity in sorted(identities):
            order = self._read(identity)
            if identity not in self._proxies:
                self._proxies[identity] = proxy.Proxy(
                    identity, self._machine, self._failed_starts)
            self._proxies[identity].order = order
            self._due[identity] = now

    def known(self) -> set[str]:
        return set(self._proxies)

    def wake(self, identities: set[str], now: float) -> None:
        """Look at their processes in the next step."""
        for identity in identities & self._proxies.keys():
            self._due[identity] = now

    def step(self, now: float) -> float:
        """Do what is due.

        :returns: when something is due next.
        """
        due = sorted(identity for identity, when in self._due.items()
                     if when <= now)
        # New members are in before a process knows them.
        self._open_ways(due)
        for identity in due:
            known = self._proxies[identity]
            try:
                self._due[identity] = known.step(now)
                if known.is_gone():
                    del self._proxies[identity], self._due[identity]
                self._complained.discard(identity)
            except Exception:
                if identity not in self._complained:
                    LOG.exception('%s: something failed and is tried again.',
                                  identity)
                self._complained.add(identity)
                self._due[identity] = now + RETRY_S
        self._open_ways(due)
        return min(self._due.values(), default=now + RESCAN_S)

    def _open_ways(self, identities: list[str]) -> None:
        """Have members and addresses of these admitted as they are now."""
        for identity in identities:
            known = self._proxies.get(identity)
            ways = known and (known.elements(), known.addresses(),
                              known.tokens())
            if ways != self._ways.get(identity):
                self._is_admitted = False
            if ways:
                self._ways[identity] = ways
            else:
                self._ways.pop(identity, None)
        if not self._is_admitted:
            # The first of those that claim a token has it.
            admitted = [way for _, way in sorted(self._ways.items())]
            self._admit(set().union(*(way[0] for way in admitted)),
                        set().union(*(way[1] for way in admitted)),
                        tokens.unique(token for way in admitted
                                      for token in sorted(way[2])))
            self._is_admitted = True

    def forget(self) -> None:
        """Have all members admitted again by the next step."""
        self._is_admitted = False

    def roots(self) -> dict[int, str]:
        """Return the processes whose end is to be noticed → load balancer."""
        return {pid: identity for identity, known in self._proxies.items()
                for pid in known.roots}


class Launcher:
    """Waits for changes and for deaths, until ``stop`` is called."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        options = conf.proxy
        self._files = files.Files(options.run_directory)
        self._numbers = range(options.number_min, options.number_max + 1)
        self._namespace = namespace.Namespace(options.namespace)
        self._firewall = firewall.Firewall(
            self._namespace, options.number_min, options.number_max)
        networks = option_values.networks(conf, 'proxy', 'token_networks')
        self._tokens = tokens.Tokens(
            self._namespace, networks,
            os.path.join(options.run_directory, 'tokens.lock'),
            # Beside the tables of an LB node on the same machine.
            f'{conf.datapath.pin_directory}-proxy', conf.datapath.library)
        states: dict[str, proxy_launch.State] = {}
        self._monitoring = monitoring.Monitoring(
            conf, 'proxy', 'launcher_listen', metrics.Metrics(states).registry)
        self._report_alive = self._monitoring.loops.watch('launcher')
        self._sockets = sockets.Sockets(self._namespace,
                                        self._monitoring.systemd)
        try:
            self._cgroups = cgroups.Cgroups(options.cgroup, options.limits)
        except cgroups.Unusable as error:
            raise option_values.ConfigurationError(
                f'[proxy] limits: {error}') from error
        self._machine = machine.Machine(
            self._files, self._cgroups, self._sockets, self._namespace,
            options.haproxy, states)
        self._proxies = Proxies(
            self._machine, options.failed_starts,
            lambda identity: orders.read(self._files.wanted, identity,
                                         self._numbers, networks),
            self._admit)
        self._limits = options.limits
        self._program = options.haproxy
        self._lock: int | None = None
        self._stopping, self._stop = os.pipe()
        self._watched: dict[int, tuple[int, str]] = {}

    def stop(self) -> None:
        """Make ``run`` return. HAProxy processes go on."""
        with contextlib.suppress(OSError):
            os.write(self._stop, b'!')

    def run(self) -> None:
        """Serve until ``stop`` is called.

        :raises ConfigurationError: the machine or an option does not allow
            it.
        """
        self._prepare()
        self._monitoring.start()
        try:
            with INotify() as inotify:
                self._serve(inotify)
        finally:
            self._monitoring.stop()

    def _prepare(self) -> None:
        if not os.access(self._program, os.X_OK):
            raise option_values.ConfigurationError(
                f'[proxy] haproxy: {self._program} is no program')
        try:
            self._files.make()
        except OSError as error:
            raise option_values.ConfigurationError(
                f'[proxy] run_directory: {error}') from error
        # Held until this process ends.
        self._lock = os.open(self._files.lock, os.O_WRONLY | os.O_CREAT
                             | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise option_values.ConfigurationError(
                '[proxy] run_directory: another launcher uses '
                f'{self._files.directory}') from error
        try:
            self._cgroups.make()
        except cgroups.Unusable as error:
            raise option_values.ConfigurationError(
                f'[proxy] limits: {error}') from error
        if not self._limits:
            LOG.warning('[proxy] limits is false: one load balancer can use '
                        'up the memory of this node.')
        try:
            self._namespace.make()
            self._firewall.make()
        except namespace.Failure as error:
            raise option_values.ConfigurationError(
                f'[proxy] namespace: {error}') from error
        self._sockets.receive(self._monitoring.systemd.stored)

    def _admit(self, elements: set[firewall.Element], addresses: set[str],
               wanted: set[tokens.Token]) -> None:
        if not self._tokens.apply(wanted):
            elements = {element for element in elements
                        if not self._tokens.has(element[1])}
        self._firewall.apply(elements)
        self._namespace.set_local(addresses)

    def _serve(self, inotify: INotify) -> None:
        waiting = select.epoll()
        waiting.register(inotify, select.EPOLLIN)
        waiting.register(self._stopping, select.EPOLLIN)
        watches: dict[int, str] = {}
        rescan_at = 0.0
        compare_at = time.monotonic() + COMPARE_S
        is_ready = is_stopping = False
        while not is_stopping:
            self._report_alive()
            now = time.monotonic()
            due = now + RETRY_S
            try:
                if now >= compare_at:
                    self._forget()
                    compare_at = now + COMPARE_S
                if now >= rescan_at:
                    self._rescan(inotify, watches, now)
                    rescan_at = now + RESCAN_S
                due = min(rescan_at, self._proxies.step(now))
                # Whoever wants a socket has it after the first step.
                self._sockets.discard_stored()
            except Exception:
                LOG.exception('The launcher failed and tries again.')
                self._forget()
            self._machine.reap()
            self._watch(waiting)
            if not is_ready:
                self._monitoring.ready()
                is_ready = True
            events = waiting.poll(max(0.0, due - time.monotonic()))
            now = time.monotonic()
            is_stopping = any(file == self._stopping for file, _ in events)
            self._proxies.wake({self._unwatch(file, waiting) for file, _
                                in events if file in self._watched}, now)
            if self._read_events(inotify, watches, now):
                rescan_at = 0.0

    def _forget(self) -> None:
        """Compare with the kernel's tables the next time."""
        self._namespace.forget()
        self._firewall.forget()
        self._tokens.forget()
        self._proxies.forget()

    def _rescan(self, inotify: INotify, watches: dict[int, str], now: float
                ) -> None:
        """Read all that is wanted, and look at all that runs."""
        watches[inotify.add_watch(self._files.wanted, _CHANGED)] = ''
        wanted = orders.identities(self._files.wanted)
        for identity in wanted:
            self._follow(inotify, watches, identity)
        self._proxies.look(wanted | self._proxies.known()
                           | self._cgroups.identities()
                           | self._files.identities(), now)

    def _follow(self, inotify: INotify, watches: dict[int, str],
                identity: str) -> None:
        """Have changes of a load balancer's files reported."""
        with contextlib.suppress(OSError):
            watches[inotify.add_watch(os.path.join(
                self._files.wanted, identity), _CHANGED)] = identity

    def _read_events(self, inotify: INotify, watches: dict[int, str],
                     now: float) -> bool:
        """Look at what has changed; return whether to look at everything."""
        changed, is_lost = set(), False
        for event in inotify.read(timeout=0):
            is_lost |= bool(event.mask & _LOST)
            if event.mask & flags.IGNORED:
                watches.pop(event.wd, None)
            elif watches.get(event.wd):
                changed.add(watches[event.wd])
            elif orders.is_identity(event.name):
                self._follow(inotify, watches, event.name)
                changed.add(event.name)
        self._proxies.look(changed, now)
        return is_lost

    def _watch(self, waiting: select.epoll) -> None:
        """Wait for the end of exactly the processes that matter."""
        roots = self._proxies.roots()
        watched = {pid: file for file, (pid, _) in self._watched.items()}
        for pid in watched.keys() - roots.keys():
            self._unwatch(watched[pid], waiting)
        for pid in roots.keys() - watched.keys():
            try:
                file = os.pidfd_open(pid)
            except ProcessLookupError:
                self._proxies.wake({roots[pid]}, time.monotonic())
                continue
            self._watched[file] = pid, roots[pid]
            waiting.register(file, select.EPOLLIN)

    def _unwatch(self, file: int, waiting: select.epoll) -> str:
        _, identity = self._watched.pop(file)
        waiting.unregister(file)
        os.close(file)
        return identity
