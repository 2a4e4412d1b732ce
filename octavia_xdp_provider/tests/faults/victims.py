# SPDX-License-Identifier: Apache-2.0
"""The processes that fail: where they are, and how they come back."""

import contextlib
import dataclasses
import os
import pathlib
import signal

from lab import namespaces
from lab import paths
from lab import processes
from lab.control import mariadb
from lab.control import octavia
from lab.control import rabbitmq
from lab.fabric import nodes

NODE = 'lb1'
# Below driver-agent, and on its own.
NUMBER_OF_CONTROLLERS = 2
# All of them at once.
CONTROLLERS = 'controllers'
_CONTROLLER = (b'octavia_xdp_provider.cmd.controller',
               b'/octavia-xdp-controller')


@dataclasses.dataclass(frozen=True)
class Victim:
    """A process of the lab.

    ``process``: its name in the lab; None: a controller that something else
    starts, or all of them. ``ports``: TCP ports by which it is cut off; none:
    what it has open. ``alone``: nobody is spoken to over TCP.
    """

    name: str
    host: str
    process: str | None
    ports: tuple[int, ...] = ()
    alone: bool = False


def all_of():
    """The victims by name."""
    victims = [
        Victim('octavia-api', paths.CONTROL, octavia.API),
        Victim('driver-agent', paths.CONTROL, octavia.DRIVER_AGENT,
               alone=True),
        *(Victim(f'controller-{number}', paths.CONTROL, None)
          for number in range(1, NUMBER_OF_CONTROLLERS + 1)),
        Victim(CONTROLLERS, paths.CONTROL, None),
        Victim('rabbitmq', paths.CONTROL, rabbitmq.NAME,
               (rabbitmq.PORT, rabbitmq.TLS_PORT)),
        Victim('mariadb', paths.CONTROL, mariadb.NAME, (mariadb.PORT,)),
        Victim('agent', NODE, nodes.name(NODE, nodes.AGENT),
               (rabbitmq.PORT, rabbitmq.TLS_PORT)),
        Victim('result-handler', NODE,
               nodes.name(NODE, nodes.RESULT_HANDLER), alone=True),
        Victim('hc-agent', NODE, nodes.name(NODE, nodes.HEALTH_CHECKER),
               (80,)),
        Victim('exabgp', NODE, nodes.name(NODE, nodes.EXABGP), (179,)),
    ]
    return {victim.name: victim for victim in victims}


def _controllers(lab):
    """Process ids of the controllers, the lab's own after the others."""
    own = {process.pid for process in processes.all_of(lab)}
    pids = []
    for pid in namespaces.processes_in(lab, paths.CONTROL):
        with contextlib.suppress(OSError):
            line = pathlib.Path(f'/proc/{pid}/cmdline').read_bytes()
            if any(word in line for word in _CONTROLLER) and (
                    b'supervisor' not in line):
                pids.append(pid)
    return sorted(pids, key=lambda pid: (pid in own, pid))


def pids(lab, victim):
    """Its process ids, the first one before those that it has started."""
    if victim.process is None:
        controllers = _controllers(lab)
        if victim.name == CONTROLLERS:
            return controllers
        number = int(victim.name.rpartition('-')[2]) - 1
        return controllers[number:number + 1]
    process = processes.find(lab, victim.process)
    return [process.pid, *_below(process.pid)] if process.alive else []


def _below(pid):
    """Children, and theirs."""
    children = {}
    for entry in pathlib.Path('/proc').glob('[0-9]*'):
        with contextlib.suppress(OSError):
            stat = (entry / 'stat').read_text().rpartition(')')[2].split()
            children.setdefault(int(stat[1]), []).append(int(entry.name))
    tree = [pid]
    for parent in tree:
        tree += children.get(parent, [])
    return tree[1:]


def send(numbers, what):
    """Send a signal to processes that may have ended."""
    for pid in numbers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, what)


def kill(lab, victim):
    """KILL a process, and what it has started."""
    numbers = pids(lab, victim)
    # First what would start others again.
    send(numbers, signal.SIGSTOP)
    send(numbers, signal.SIGKILL)
    processes.reap()


def revive(lab, victim, controllers):
    """Start it again, if nobody else does, and wait until it is there.

    :param controllers: how many there were.
    """
    if victim.process is not None:
        process = processes.find(lab, victim.process)
        if not process.alive:
            processes.restart(lab, victim.process)
    for process in processes.all_of(lab):
        if process.name == getattr(octavia, 'SECOND_CONTROLLER', None) and (
                not process.alive):
            processes.restart(lab, process.name)
    if victim.process == mariadb.NAME:
        processes.wait_for('database server', lambda: mariadb.listening(
            lab, mariadb.ADDRESS, mariadb.PORT), 60)
        keep_commits(lab)
    processes.wait_for('controllers', lambda: (
        len(_controllers(lab)) >= controllers), 60)


def keep_commits(lab):
    """Transactions survive the server's death, as they do by default."""
    processes.run(lab, paths.CONTROL, [
        'mariadb', '--no-defaults',
        f'--socket={lab.run_directory}/mariadb.sock', '-e',
        'SET GLOBAL innodb_flush_log_at_trx_commit = 2'])


def count_controllers(lab):
    return len(_controllers(lab))
