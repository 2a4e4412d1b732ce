# SPDX-License-Identifier: Apache-2.0
"""A machine on which HAProxy processes start, reload and die at once.

``World`` is what is left when the launcher is killed: processes, files,
cgroups. ``Machine`` is what a launcher does to it, with what is lost with the
launcher; it has the methods of machine.Machine.
"""

import itertools

from octavia_xdp_provider.proxy.launcher import cgroups
from octavia_xdp_provider.proxy.launcher import files
from octavia_xdp_provider.proxy.launcher import machine
from octavia_xdp_provider.proxy.launcher import orders
from octavia_xdp_provider.proxy.launcher import service
from octavia_xdp_provider.proxy.launcher import sockets

FAILED_STARTS = 3
INIT = 1


def identity_of(number):
    return f'{number:08x}-0000-4000-8000-000000000000'


def launch(number, text, ports):
    return {
        'number': number, 'configuration_hash': text, 'certificates': None,
        'sockets': [{'name': f'LISTENER_{port}', 'address': '203.0.113.1',
                     'port': port} for port in ports],
        'members': [{'address': '198.51.100.1', 'port': 80}],
        'connections': 100, 'threads': 1, 'memory_bytes': 1 << 26,
        'cpu_weight': 100, 'stop_after_s': 10}


class Master:
    """A master that runs, with its workers.

    :ivar is_busy: whether it would lose a signal, as HAProxy for a moment
        after it has a worker; until it was tried once.
    """

    def __init__(self, process, endpoints):
        self.process = process
        self.endpoints = endpoints
        self.workers = []
        self.served = None
        self.is_leaving = False
        self.is_busy = False

    def takes_signals(self):
        was_busy, self.is_busy = self.is_busy, False
        return not was_busy


class World:
    """:ivar bad: configurations that HAProxy refuses.

    :ivar deadly: those with which it dies at once.
    :ivar groups: load balancer → generation → Master.
    """

    def __init__(self):
        self.bad, self.deadly = set(), set()
        self.wanted = {}
        self.groups = {}
        self.installed = {}
        self.records = {}
        self.states = {}
        self.admitted = set()
        self.now = 0.0
        self._ids = itertools.count(100)

    def process(self, parent=INIT):
        pid = next(self._ids)
        return cgroups.Process(pid, parent, pid)

    def masters(self, identity):
        return [master for generation, master
                in self.groups.get(identity, {}).items()
                if generation != machine.CHECK]

    def load(self, master, text):
        """Have a master load a configuration. Returns whether it is valid."""
        if text in self.bad or text in self.deadly:
            return False
        master.served = text
        master.is_busy = True
        master.workers = [self.process(master.process.pid)]
        return True

    def kill(self, identity, generation):
        self.groups.get(identity, {}).pop(generation, None)

    def order(self, identity):
        wanted = self.wanted.get(identity)
        return wanted and orders.Order(wanted)


class Machine:

    def __init__(self, world):
        self.world = world
        self._sockets = {}
        self._listening = {}
        self._claims = {}
        self._checked = {}

    def load(self, identity):
        return self.world.records.get(identity)

    def save(self, identity, record):
        if record is None:
            self.world.records.pop(identity, None)
        else:
            assert isinstance(record, files.Record)
            self.world.records[identity] = record

    def write_state(self, identity, state):
        self.world.states[identity] = state

    def take(self, identity, wanted):
        pass

    def install(self, identity, generation, wanted):
        self.world.installed[identity, generation] = (
            wanted['configuration_hash'])

    def clean(self, identity, generations, launches):
        pass

    def open_sockets(self, identity, wanted, listen):
        opened = set(wanted) - self._sockets.get(identity, set())
        # Sockets that the launcher has lost are still those of processes.
        for point in opened:
            for owner, group in self.world.groups.items():
                for master in group.values():
                    if point in master.endpoints and not master.is_leaving:
                        raise OSError(f'{owner} has {point}')
        self._sockets.setdefault(identity, set()).update(opened)
        if listen:
            opened |= set(wanted) - self._listening.get(identity, set())
            self._listening.setdefault(identity, set()).update(wanted)
        return opened

    def keep_sockets(self, identity, kept):
        self._sockets[identity] = (self._sockets.get(identity, set())
                                   & set(kept))
        self._listening[identity] = (self._listening.get(identity, set())
                                     & set(kept))

    def take_sockets(self, identity, pid, count):
        for master in self.world.groups.get(identity, {}).values():
            if master.process.pid == pid:
                for held in (self._sockets, self._listening):
                    held.setdefault(identity, set()).update(
                        master.endpoints[:count])

    def is_listening(self, identity):
        return bool(self._listening.get(identity))

    def sockets(self, identity):
        return self._sockets.get(identity, set())

    def observe(self, identity):
        return {generation: [master.process, *master.workers]
                for generation, master
                in self.world.groups.get(identity, {}).items()}

    claim = machine.Machine.claim
    owns = machine.Machine.owns

    def user_of(self, number, identity):
        owner = self._claims.get(number)
        return None if owner in (None, identity) else owner

    def limit(self, identity, wanted):
        pass

    def check(self, identity, wanted):
        self._checked[identity] = wanted['configuration_hash']
        self.world.groups.setdefault(identity, {})[machine.CHECK] = Master(
            self.world.process(), [])

    def status(self, identity, generation):
        if identity not in self._checked:
            return None
        self.world.kill(identity, machine.CHECK)
        return int(self._checked[identity] in self.world.bad)

    def text(self, identity, generation):
        return ''

    def discard(self, identity, generation):
        if generation == machine.CHECK:
            self._checked.pop(identity, None)

    def start(self, identity, generation, wanted):
        group = self.world.groups.setdefault(identity, {})
        assert generation not in group
        # HAProxy refuses to start without its sockets.
        points = sockets.endpoints(wanted)
        assert set(points) <= self._sockets[identity]
        number = (wanted['number'], '198.51.100.1', 80)
        assert number in self.world.admitted
        self.install(identity, generation, wanted)
        master = Master(self.world.process(), points)
        if self.world.load(master, wanted['configuration_hash']):
            group[generation] = master

    def reload(self, identity, generation, process):
        master = self.world.groups[identity][generation]
        assert master.process == process
        if not master.takes_signals():
            return False
        self.world.load(master, self.world.installed[identity, generation])
        return True

    def stop(self, identity, generation, process):
        master = self.world.groups[identity][generation]
        assert master.process == process
        master.is_leaving = master.takes_signals()
        return master.is_leaving

    def kill(self, identity, generation):
        self.world.kill(identity, generation)

    def remove(self, identity):
        assert not self.world.groups.get(identity)
        self.world.groups.pop(identity, None)
        self.world.states.pop(identity, None)
        self._sockets.pop(identity, None)
        return True


class Node:
    """A world with a launcher, which can be killed."""

    def __init__(self):
        self.world = World()
        self.start()

    def start(self):
        """Start a launcher; the last one is lost with all that it knew."""
        self.machine = Machine(self.world)
        self.proxies = service.Proxies(
            self.machine, FAILED_STARTS, self.world.order, self._admit)
        self.look()

    def _admit(self, elements, addresses, _tokens):
        self.world.admitted = elements

    def look(self):
        self.proxies.look(
            self.world.wanted.keys() | self.proxies.known()
            | self.world.groups.keys() | self.world.records.keys()
            | self.world.states.keys(), self.world.now)

    def step(self, passes=1):
        """Do what is due; nothing takes time but waiting."""
        for _ in range(passes):
            self.proxies.wake(self.proxies.known(), self.world.now)
            due = self.proxies.step(self.world.now)
            self.world.now = max(self.world.now + 0.01, min(
                due, self.world.now + 1))

    def settle(self):
        """Look at everything as often as it may take."""
        for _ in range(120):
            self.look()
            self.step()
            self.world.now += 1

    def agree(self, test):
        """See that what runs is what is wanted."""
        world = self.world
        self.settle()
        for identity in world.groups.keys() - world.wanted.keys():
            test.assertEqual({}, world.groups[identity])
        test.assertEqual(set(), world.states.keys() - world.wanted.keys())
        for identity, wanted in world.wanted.items():
            text = wanted['configuration_hash']
            state = world.states[identity]
            masters = world.masters(identity)
            if text in world.deadly | world.bad:
                # The previous configuration may still be served.
                test.assertLessEqual(len(masters), 1)
                test.assertNotEqual('running', state['phase'])
                test.assertEqual(bool(masters), state['listening'])
                continue
            test.assertEqual([text], [master.served for master in masters])
            master, = masters
            test.assertFalse(master.is_leaving)
            points = sockets.endpoints(wanted)
            test.assertEqual(points, master.endpoints)
            test.assertEqual(set(points), self.machine.sockets(identity))
            test.assertEqual(
                ('running', text, master.process.pid, None),
                tuple(state[name] for name in (
                    'phase', 'configuration_hash', 'pid', 'error')))
        all_members, needed = ({
            (wanted['number'], '198.51.100.1', 80)
            for wanted in world.wanted.values()
            if wanted['configuration_hash'] not in without}
            for without in ((), world.deadly | world.bad))
        test.assertTrue(needed <= world.admitted <= all_members)
