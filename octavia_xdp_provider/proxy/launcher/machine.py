# SPDX-License-Identifier: Apache-2.0
"""What the launcher does to the machine, for one load balancer at a time."""

from collections.abc import Iterable
import contextlib
import os
import signal

from octavia_xdp_provider.contracts import proxy_launch
from octavia_xdp_provider.proxy.launcher import cgroups
from octavia_xdp_provider.proxy.launcher import files
from octavia_xdp_provider.proxy.launcher import namespace
from octavia_xdp_provider.proxy.launcher import sockets
from octavia_xdp_provider.proxy.launcher import spawn

# The generation of checks; HAProxy's begin after it.
CHECK = 0


class Machine:
    """See proxy.Proxy, which calls it."""

    def __init__(self, run: files.Files, groups: cgroups.Cgroups,
                 held: sockets.Sockets, traffic: namespace.Namespace,
                 program: str,
                 states: dict[str, proxy_launch.State]) -> None:
        self._files = run
        self._cgroups = groups
        self._sockets = held
        self._namespace = traffic
        self._program = program
        self._states = states
        self._started: dict[tuple[str, int], spawn.Started] = {}
        self._claims: dict[int, str] = {}

    # Files.

    def load(self, identity: str) -> files.Record | None:
        return self._files.load(identity)

    def save(self, identity: str, record: files.Record | None) -> None:
        self._files.save(identity, record)

    def write_state(self, identity: str, state: proxy_launch.State) -> None:
        self._files.write_state(identity, state)
        self._states[identity] = state

    def take(self, identity: str, launch: proxy_launch.Launch) -> None:
        """Copy what the agent wants to be served."""
        self._files.prepare(identity, launch['number'])
        self._files.take(identity, launch)

    def install(self, identity: str, generation: int,
                launch: proxy_launch.Launch) -> None:
        """Let a running master find a configuration at its next reload."""
        self._files.install(identity, generation, launch)

    def clean(self, identity: str, generations: set[int],
              launches: list[proxy_launch.Launch]) -> None:
        self._files.clean(identity, generations, launches)

    # Sockets.

    def open_sockets(self, identity: str, wanted: Iterable[sockets.Endpoint],
                     listen: bool) -> set[sockets.Endpoint]:
        return self._sockets.open(identity, wanted, listen)

    def keep_sockets(self, identity: str, kept: Iterable[sockets.Endpoint]
                     ) -> None:
        self._sockets.keep(identity, kept)

    def take_sockets(self, identity: str, pid: int, count: int) -> None:
        self._sockets.take_from(identity, pid, count)

    def is_listening(self, identity: str) -> bool:
        return self._sockets.listening(identity)

    # Processes.

    def observe(self, identity: str) -> dict[int, list[cgroups.Process]]:
        """Return what runs, by generation."""
        return self._cgroups.observe(identity)

    def claim(self, identity: str, numbers: set[int], is_alive: bool
              ) -> None:
        """Note the uids of a load balancer.

        :param is_alive: whether it has processes, which may have others.
        """
        for number in numbers:
            self._claims.setdefault(number, identity)
        if not is_alive:
            for number in [number for number, owner in self._claims.items()
                           if owner == identity and number not in numbers]:
                del self._claims[number]

    def owns(self, number: int, identity: str) -> bool:
        return self._claims.get(number) == identity

    def user_of(self, number: int, identity: str) -> str | None:
        """Return who else uses this uid: a load balancer, or a process that
        is none's."""
        owner = self._claims.get(number)
        if owner is not None:
            return None if owner == identity else f'load balancer {owner}'
        own = {str(process.pid) for processes
               in self.observe(identity).values() for process in processes}
        return next((f'process {name}' for name in os.listdir('/proc')
                     if name.isdigit() and name not in own
                     and number in _uids(name)), None)

    def limit(self, identity: str, launch: proxy_launch.Launch) -> None:
        self._cgroups.limit(identity, launch)

    def check(self, identity: str, launch: proxy_launch.Launch) -> None:
        """Let HAProxy check a configuration that was taken."""
        name = f'{launch["configuration_hash"]}.cfg'
        self._spawn(identity, CHECK, launch, [
            self._program, '-c', '-f',
            f'{proxy_launch.OWN}/configurations/{name}'])

    def start(self, identity: str, generation: int,
              launch: proxy_launch.Launch) -> None:
        """Start a master with a configuration that was taken."""
        self._files.install(identity, generation, launch)
        self._spawn(identity, generation, launch, [
            self._program, '-W', '-S', f'{proxy_launch.RUN}/'
            f'{proxy_launch.MASTER_SOCKET.format(generation)},mode,660', '-f',
            f'{proxy_launch.OWN}/{generation}/{proxy_launch.CONFIGURATION}'])

    def _spawn(self, identity: str, generation: int,
               launch: proxy_launch.Launch, arguments: list[str]) -> None:
        self.discard(identity, generation)
        self._files.prepare(identity, launch['number'])
        self._cgroups.prepare(identity, generation, launch)
        self._started[identity, generation] = spawn.Started(
            spawn.order(self._files, identity, launch, self._namespace.path,
                        self._sockets.descriptors(
                            identity, sockets.endpoints(launch)), arguments),
            lambda pid: self._cgroups.enter(identity, generation, pid))

    def status(self, identity: str, generation: int) -> int | None:
        """Return the exit status of what this launcher has started."""
        started = self._started.get((identity, generation))
        return started.status() if started else None

    def text(self, identity: str, generation: int) -> str:
        """Return what it wrote to standard error, if it is known."""
        started = self._started.get((identity, generation))
        return started.text() if started else ''

    def discard(self, identity: str, generation: int) -> None:
        """Forget about a process that has ended."""
        started = self._started.pop((identity, generation), None)
        if started:
            started.close()

    def reap(self) -> None:
        """Take the status of children that have ended."""
        for started in self._started.values():
            started.status()

    def reload(self, identity: str, generation: int,
               master: cgroups.Process) -> bool:
        """Let it read its configuration; return False if it cannot now."""
        return self._cgroups.send(identity, generation, master, signal.SIGUSR2)

    def stop(self, identity: str, generation: int, master: cgroups.Process
             ) -> bool:
        """Let it end with its last connection; return False if it cannot
        now."""
        return self._cgroups.send(identity, generation, master, signal.SIGUSR1)

    def kill(self, identity: str, generation: int) -> None:
        self._cgroups.kill(identity, generation)

    def remove(self, identity: str) -> bool:
        """Remove all traces of a load balancer without processes."""
        for key in [key for key in self._started if key[0] == identity]:
            self.discard(*key)
        if not self._cgroups.remove(identity):
            return False
        self._files.remove(identity)
        self._states.pop(identity, None)
        return True


def _uids(pid: str) -> set[int]:
    """Return the uids of a process that has not ended: one that has can do
    nothing any more, though it is there until its parent takes its status."""
    with contextlib.suppress(OSError), open(f'/proc/{pid}/status') as lines:
        for line in lines:
            if line.startswith('State:') and line.split()[1] == 'Z':
                return set()
            if line.startswith('Uid:'):
                return set(map(int, line.split()[1:]))
    return set()
