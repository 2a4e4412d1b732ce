# SPDX-License-Identifier: Apache-2.0
"""5,000 load balancers on 50 nodes, 20 changes a second.

Real are the controller as a separate process, MariaDB, and RabbitMQ with a
virtual host for each node, all over TLS; the driver's calls; and the nodes'
side of the protocol (simulated.py). Replaced are the nodes' tables and Octavia
(stand_in.py), whose API would take hours and all of the machine for so many.
"""

import contextlib
import pathlib
import random
import re
import shutil
import sys
import time

import psutil

from bench.control import cluster as clusters
from bench.control import driver
from bench.control import figures
from bench.control import octavia
from bench.control import seed
from bench.control import stand_in
from lab import deployment
from lab import namespaces
from lab import paths
from lab import processes
from lab import progress
from lab.control import ini
from lab.control import mariadb
from lab.control import rabbitmq
from octavia_xdp_provider.api import translate
from octavia_xdp_provider.config import options
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import schema

CONTROLLER = 'controller'
DATABASE = 'xdp_test_fleet'
NODES_MAX = 200
# Processes of simulated nodes, each with its own interpreter lock.
PROCESSES = 2
# Load balancers that are created by the driver's calls. The others are created
# by seed.py, SEEDED in a transaction.
CREATED = 20
SEEDED = 500
# Creations under way at once.
CLIENTS = 32
# Calls that may be under way at once, so that the pace is kept even if an
# answer takes seconds.
CALLS = 64
# Seconds for controller and nodes to start.
START_S = 300
SOCKETS = ('status', 'stats', 'get', 'preloaded_status',
           'preloaded_stats', 'preloaded_get')
_COMPARED = re.compile(
    r"Compared with Octavia's list of (\d+) load balancers in ([\d.]+) s")
_HOLDING = re.compile(r'holding (\d+)')


def run(arguments):
    """Run everything; return (figures, further values)."""
    fleet = Fleet(arguments)
    with fleet.running():
        fleet.fill()
        quiet = fleet.measure(30, None)
        busy = fleet.measure(arguments.fleet_seconds, arguments.fleet_rate)
        resync_s = fleet.resync()
        refetch_s = fleet.refetch()
        rss = psutil.Process(fleet.pid).memory_info().rss / 1e6
    values = {'cores': busy['cores'], 'rss_mb': round(rss),
              'resync_s': resync_s, 'changes_per_s': busy['changes_per_s']}
    print('fleet', values, flush=True)
    return values, {
        'load_balancers': arguments.fleet_load_balancers,
        'nodes': arguments.fleet_nodes, 'fill_s': fleet.fill_s,
        'idle_cores': quiet['cores'], 'cpu_ms_a_change': _cost_ms(
            busy, quiet), 'sent_p50_s': busy['p50_s'],
        'sent_p99_s': busy['p99_s'], 'calls_of_driver_agent_per_s':
            busy['messages_per_s'],
        'simulated_nodes_cores': busy['nodes_cores'],
        'mariadb_cores': busy['mariadb_cores'],
        'rabbitmq_cores': busy['rabbitmq_cores'],
        'all_nodes_from_nothing_s': refetch_s}


class Fleet:
    """Controller, servers and simulated nodes."""

    def __init__(self, arguments):
        self.lab = paths.Lab(f'{arguments.lab}-fleet')
        self._hosts = [f'lb{number + 1}'
                       for number in range(arguments.fleet_nodes)]
        self._size = arguments.fleet_load_balancers
        self._members = arguments.members
        self._octavia = stand_in.Octavia()
        self._driver = None
        self._balancers = []  # (id, pool id, member id)
        self.fill_s = None

    @property
    def pid(self):
        return processes.find(self.lab, CONTROLLER).pid

    @contextlib.contextmanager
    def running(self):
        known = rabbitmq.NODES
        rabbitmq.NODES = tuple(self._hosts)
        try:
            deployment.up_services(self.lab)
            with contextlib.ExitStack() as stack:
                with namespaces.inside(self.lab, paths.CONTROL):
                    stack.enter_context(stand_in.serving(
                        self._octavia, {kind: self._socket(kind)
                                        for kind in SOCKETS}))
                with progress.step('starting controller and nodes'):
                    self._start()
                yield
        finally:
            rabbitmq.NODES = known
            deployment.down(self.lab)

    def _socket(self, kind):
        return self.lab.run_directory / f'{kind}.sock'

    def _start(self):
        self._create_database()
        self._configure()
        path = self._path('controller')
        environment = {options.CONFIG_ENVIRONMENT_VARIABLE: path}
        processes.run(self.lab, paths.CONTROL, [
            'octavia-xdp-manage', 'database', 'upgrade'], env={
                **environment})
        conf = options.load(config_files=[str(path)])
        self._replicas = conf.placement.replicas
        with namespaces.inside(self.lab, paths.CONTROL):
            store = queries.Store(schema.context_manager(conf))
            for host in self._hosts:
                store.nodes.register(host)
        self._store = store
        processes.start(self.lab, paths.CONTROL, CONTROLLER,
                        ['octavia-xdp-controller', '--config-file', path])
        log = processes.find(self.lab, CONTROLLER).log
        # Requests of nodes before that are lost.
        processes.wait_for(
            'a controller that serves all', lambda: pathlib.Path(
                log).read_text(
                errors='replace').count('Serving node ') >= len(self._hosts),
            START_S, 0.5)
        self._start_nodes()

        def all_live():
            for number in range(PROCESSES):
                if not processes.alive(self.lab, f'nodes-{number}'):
                    raise octavia.Failed('simulated nodes have ended, see '
                                         f'{self.lab.logs}')
            with namespaces.inside(self.lab, paths.CONTROL):
                return all(condition == 'live' for condition
                           in store.nodes.conditions().values())
        processes.wait_for('all nodes', all_live, START_S, 0.5)
        self._driver = driver.Driver(self.lab, self._path('driver'))

    def _create_database(self):
        processes.run(self.lab, paths.CONTROL, [
            'mariadb', '--no-defaults',
            f'--socket={self.lab.run_directory}/mariadb.sock'],
            input=f'CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4;')

    def _path(self, name):
        return self.lab.host_directory(paths.CONTROL) / f'{name}.conf'

    def _configure(self):
        both = {
            'DEFAULT': {'host': paths.CONTROL, 'use_stderr': True},
            'oslo_messaging_rabbit': rabbitmq.tls_options(self.lab),
            # Without Neutron.
            'vip': {'allowed_networks': driver.VIPS, 'any_network': True},
            'members': {'allowed_networks': clusters.MEMBERS}}
        ini.write(self._path('driver'), both, {'DEFAULT': {
            'transport_url': rabbitmq.driver_url(self.lab)}})
        ini.write(self._path('controller'), both, {
            'DEFAULT': {
                'transport_url': rabbitmq.controller_url(self.lab),
                'default_log_levels':
                    'octavia_xdp_provider.controller.resync=DEBUG'},
            'nodes': {'transport_url': rabbitmq.nodes_url(self.lab)},
            'database': {'connection': mariadb.url(self.lab, DATABASE)},
            'controller': {f'{kind}_socket': self._socket(kind)
                           for kind in SOCKETS},
            'octavia': {
                'auth_type': 'none',
                'endpoint_override': f'http://127.0.0.1:{stand_in.PORT}'}})
        for host in self._hosts:
            ini.write(self._path(host), both, {
                'DEFAULT': {
                    'host': host,
                    'transport_url': rabbitmq.node_url(self.lab, host)},
                'agent': {'run_directory':
                          self.lab.run_directory / host}})

    def _start_nodes(self):
        for number in range(PROCESSES):
            processes.start(
                self.lab, paths.CONTROL, f'nodes-{number}',
                [sys.executable, '-m', 'bench.control.simulated',
                 *(self._path(host)
                   for host in self._hosts[number::PROCESSES])],
                cwd=paths.CHECKOUT)

    def fill(self):
        """Create all load balancers, a few of them by the driver's calls."""
        began = time.monotonic()
        with progress.step(f'{self._size} load balancers on '
                           f'{len(self._hosts)} nodes'):
            self._seed(range(CREATED, self._size))
            clusters.together(range(min(CREATED, self._size)), self._create,
                              CLIENTS)
            for key, _, _ in self._balancers:
                if not self._octavia.wait(key, octavia.PATIENCE_S):
                    raise octavia.Failed(f'{key} does not become ACTIVE')
        self.fill_s = round(time.monotonic() - began)

    def _seed(self, numbers):
        documents = []
        for number in numbers:
            key, fields, pool = self._begin(number)
            documents.append(spec.document(key, fields))
            self._balancers.append((key, pool.pool_id,
                                    pool.members[0].member_id))
        with namespaces.inside(self.lab, paths.CONTROL):
            for start in range(0, len(documents), SEEDED):
                seed.seed(self._store, documents[start:start + SEEDED],
                          self._hosts, self._replicas)

    def _begin(self, number):
        """Begin a load balancer as pending; return (id, fields, pool)."""
        tree = driver.tree(number, self._members)
        fields = translate.load_balancer_tree(tree)
        fields['flavor'] = {}
        pool = tree.listeners[0].default_pool
        self._octavia.begin(tree.loadbalancer_id, 'PENDING_CREATE', [
            ('listeners', tree.listeners[0].listener_id),
            ('pools', pool.pool_id),
            *(('members', member.member_id) for member in pool.members)])
        return tree.loadbalancer_id, fields, pool

    def _create(self, number):
        key, fields, pool = self._begin(number)
        request = self._driver.change({
            'object': 'loadbalancer', 'action': 'create', 'object_id': key,
            'load_balancer_id': key, 'fields': fields})
        self._driver.committed(request)
        if not self._octavia.wait(key, octavia.PATIENCE_S):
            raise octavia.Failed(f'{key} does not become ACTIVE')
        self._balancers.append((key, pool.pool_id,
                                pool.members[0].member_id))

    def _change(self, balancer, weight):
        """Change a member's weight, unless a change is under way."""
        key, pool_id, member_id = balancer
        if not self._octavia.lock(key):
            return
        request = self._driver.change({
            'object': 'member', 'action': 'update', 'object_id': member_id,
            'pool_id': pool_id, 'fields': {'weight': weight}})
        self._octavia.begin(key, 'PENDING_UPDATE')
        self._driver.committed(request)

    def measure(self, seconds, rate):
        """Make changes at a rate; return what all processes have used."""
        self._octavia.spans.clear()
        pids = self._pids()
        used = {name: _cpu(group) for name, group in pids.items()}
        messages, began = self._octavia.messages, time.monotonic()
        title = f'{rate:g} changes a second' if rate else 'no change'
        with progress.step(f'{title}, for {seconds} s'):
            if rate:
                self._make_changes(seconds, rate)
            else:
                time.sleep(seconds)
        took = time.monotonic() - began
        spans = list(self._octavia.spans)
        cores = {name: round((_cpu(group) - used[name]) / took, 2)
                 for name, group in pids.items()}
        return {
            'cores': cores[CONTROLLER], 'cpu_s': _cpu(pids[CONTROLLER])
            - used[CONTROLLER], 'seconds': took, 'changes': len(spans),
            'changes_per_s': round(len(spans) / took, 1),
            'p50_s': spans and round(figures.percentile(spans, 50), 2),
            'p99_s': spans and round(figures.percentile(spans, 99), 2),
            'messages_per_s': round(
                (self._octavia.messages - messages) / took, 1),
            'nodes_cores': cores['nodes'],
            'mariadb_cores': cores[mariadb.NAME],
            'rabbitmq_cores': cores[rabbitmq.NAME]}

    def _pids(self):
        groups = {CONTROLLER: [CONTROLLER], mariadb.NAME: [mariadb.NAME],
                  rabbitmq.NAME: [rabbitmq.NAME],
                  'nodes': [f'nodes-{number}' for number
                            in range(PROCESSES)]}
        return {name: [relative.pid for process in group
                       for relative in _family(self.lab, process)]
                for name, group in groups.items()}

    def _make_changes(self, seconds, rate):
        """Make changes at a steady pace; slow calls delay no others."""
        chosen, begin = random.Random(2), time.monotonic()
        number_of_changes = int(seconds * rate) + 1

        def work(change):
            due, balancer, weight = change
            time.sleep(max(0.0, due - time.monotonic()))
            self._change(balancer, weight)

        clusters.together(
            ((begin + number / rate, chosen.choice(self._balancers),
              (number + 1) % 200 + 1)
             for number in range(number_of_changes)),
            work, clients=CALLS)

    def resync(self):
        """Return the seconds of the next comparison with Octavia's list."""
        process = processes.find(self.lab, CONTROLLER)
        with open(process.log, errors='replace') as log:
            log.seek(0, 2)

            def compared():
                return next(filter(None, map(_COMPARED.search, log)), None)
            with progress.step('waiting for a comparison'):
                match = processes.wait_for('comparison', compared, 150, 0.5)
        if int(match[1]) != self._size:
            raise octavia.Failed(f'{match[1]} of {self._size} are listed')
        return float(match[2])

    def refetch(self):
        """Return the seconds in which empty nodes fetch everything."""
        names = [f'nodes-{number}' for number in range(PROCESSES)]
        logs = [processes.find(self.lab, name).log for name in names]
        wanted = sum(_holding(log) for log in logs)
        for name in names:
            processes.kill(self.lab, name)
        for host in self._hosts:
            shutil.rmtree(self.lab.run_directory / host)
        for log in logs:
            open(log, 'w').close()
        began = time.monotonic()
        with progress.step('all nodes begin with nothing'):
            self._start_nodes()
            processes.wait_for('all load balancers', lambda: sum(
                map(_holding, logs)) >= wanted, 300, 0.25)
        return round(time.monotonic() - began, 1)


def _family(lab, name):
    """Return a process of the lab with its descendants."""
    process = psutil.Process(processes.find(lab, name).pid)
    return [process, *process.children(recursive=True)]


def _cost_ms(busy, quiet):
    """Return CPU of the controller for a change, without its idle load."""
    if not busy['changes']:
        return None
    idle_s = quiet['cpu_s'] / quiet['seconds'] * busy['seconds']
    return round((busy['cpu_s'] - idle_s) / busy['changes'] * 1000, 1)


def _holding(log):
    """Return how many load balancers the nodes of a process report."""
    with open(log, errors='replace') as file:
        counts = _HOLDING.findall(file.read())
    return int(counts[-1]) if counts else 0


def _cpu(pids):
    total = 0.0
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            total += figures.cpu_s(pid)
    return total
