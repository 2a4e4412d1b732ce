# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: a running lab, and its tenant.

The lab is brought up once for all tests (tools/test does it) and named by
the environment variable OCTAVIA_XDP_LAB. A test has a load balancer of its
own or shares one with its class (shared.py); it puts right what it broke, and
deletes what it made.
"""

import contextlib
import json
import pathlib
import signal
import time
import unittest
import uuid
import warnings

from openstack import exceptions

from lab import cloud
from lab import namespaces
from lab import paths
from lab import processes
from lab.control import octavia as lab_octavia
from lab.fabric import members
from lab.fabric import nodes
from lab.fabric import router
from lab.fabric import topology
from octavia_xdp_provider.api import rules
from octavia_xdp_provider.config import options as product_options
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import schema
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.node import inspection
from octavia_xdp_provider.tests.support import labs
from octavia_xdp_provider.tests.support import waiting

# The SDK announces its next major version with every call.
warnings.filterwarnings('ignore', module='openstack')

VARIABLE = 'OCTAVIA_XDP_LAB'

# Health monitors of the tests, in seconds and counts. A machine that stands
# still for two seconds shall take nobody down.
DELAY, TIMEOUT, RISE, FALL = 1, 1, 2, 3

# What stays for all tests of a process: (lab, user or subnet's name) → it, lab
# → controllers' database.
_connections = {}
_subnets = {}
_stores = {}


class LabTestCase(waiting.Waiting, unittest.TestCase):
    """A test against the running lab."""

    # Seconds within which every accepted call must end in ACTIVE or ERROR:
    # [controller] status_timeout, and time for slow machines.
    SOON = 90
    # The API takes some 40 ms of processor time to answer, of processors that
    # the tests share with what they wait for.
    LOOK = 0.4

    def setUp(self):
        super().setUp()
        self.lab = labs.enter(self, VARIABLE, 'e2e')
        self.sdk = self.connection().load_balancer

    # The tenant

    def connection(self, user=cloud.TENANT):
        """The SDK's connection as this user, with a token for all tests."""
        key = self.lab.name, user
        if key not in _connections:
            _connections[key] = cloud.connect(self.lab, user)
        return _connections[key]

    def unique(self, what):
        return f'{what}-{uuid.uuid4().hex[:8]}'

    def when_answered(self, change):
        """What a call returns as soon as the driver takes it.

        For some seconds after the broker or the controller has come back the
        driver refuses what it is asked for, without a change.
        """
        def taken():
            try:
                return change(),
            except exceptions.HttpException as error:
                if 'did not answer' not in str(error.details):
                    raise
            return None
        return self.wait('an answer of the controller', taken)[0]

    def wait_settled(self, balancer):
        """Wait until nothing of a load balancer is PENDING.

        :returns: its provisioning status.
        """
        def settled():
            tree = self.sdk.get(
                f'/lbaas/loadbalancers/{balancer.id}/status').json()
            text = json.dumps(tree)
            if 'PENDING' in text:
                return None
            return tree['statuses']['loadbalancer']['provisioning_status']
        return self.wait(f'end of PENDING of {balancer.name}', settled)

    def wait_active(self, balancer):
        self.assertEqual('ACTIVE', self.wait_settled(balancer))

    def create_balancer(self, version=4, **more):
        """A load balancer, ACTIVE; nothing is below it by default."""
        balancer = self.sdk.create_load_balancer(
            name=self.unique('lb'), provider='xdp',
            vip_subnet_id=self.subnet(f'vips-v{version}'), **more)
        self.addCleanup(self.delete_balancer, balancer)
        self.wait_active(balancer)
        return balancer

    def subnet(self, name):
        key = self.lab.name, name
        if key not in _subnets:
            _subnets[key] = self.connection().network.find_subnet(name).id
        return _subnets[key]

    def create_flavor(self, **options):
        """A flavor of the provider with these options; its id."""
        admin = self.connection(cloud.ADMIN).load_balancer
        profile = admin.create_flavor_profile(
            name=self.unique('profile'), provider_name='xdp',
            flavor_data=json.dumps(options))
        flavor = admin.create_flavor(
            name=self.unique('flavor'), is_enabled=True,
            flavor_profile_id=profile.id)
        self.addCleanup(admin.delete_flavor_profile, profile)
        self.addCleanup(admin.delete_flavor, flavor)
        return flavor.id

    def listeners(self, members, port=80, protocol='TCP', monitor=None,
                  pool_options=None, listener_options=None,
                  **monitor_options):
        """One listener with its pool, for a populated creation.

        :param members: as dictionaries of Octavia's own names.
        """
        pool = {'name': self.unique('pool'), 'protocol': protocol,
                'lb_algorithm': 'SOURCE_IP_PORT', 'members': list(members),
                **(pool_options or {})}
        if monitor:
            pool['healthmonitor'] = {
                'name': self.unique('hm'), 'type': monitor, 'delay': DELAY,
                'timeout': TIMEOUT, 'max_retries': RISE,
                'max_retries_down': FALL, **monitor_options}
        return [{'name': self.unique('listener'), 'protocol': protocol,
                 'protocol_port': port, 'default_pool': pool,
                 **(listener_options or {})}]

    def create_web(self, hosts=topology.MEMBERS, port=80, protocol='TCP',
                   monitor='HTTP', version=4, member_version=None,
                   enabled=None,
                   balancer_options=None, listener_options=None,
                   pool_options=None, member_options=None,
                   **monitor_options):
        """A load balancer as most tests want it: all hosts answer.

        :param version: the VIP's IP version, and the members' unless
            `member_version` is another.
        :param enabled: how many members take flows; all by default.
        :param member_options: host → what its member has beyond the rest.
        :returns: (balancer, listener, pool, name → member).
        """
        member_options = member_options or {}
        balancer = self.create_balancer(version, listeners=self.listeners(
            ({'name': host, 'protocol_port': port,
              'address': members.address(host, member_version or version),
              **member_options.get(host, {})} for host in hosts),
            port, protocol, monitor, pool_options, listener_options,
            **monitor_options), **(balancer_options or {}))
        listener, = self.sdk.listeners(load_balancer_id=balancer.id)
        pool = self.sdk.get_pool(listener.default_pool_id)
        made = {member.name: member for member in self.sdk.members(pool)}
        self.add_vip(balancer)
        if hosts:
            self.wait_routes(balancer)
        if monitor:
            self.wait_statuses(pool, dict.fromkeys(hosts, 'ONLINE'))
            self.wait_enabled(
                balancer, len(hosts) if enabled is None else enabled,
                protocol, port)
        return balancer, listener, pool, made

    def add_vip(self, balancer):
        """Let members take a VIP until the test is over."""
        members.add_vip(self.lab, balancer.vip_address, topology.MEMBERS)
        self.addCleanup(members.remove_vip, self.lab, balancer.vip_address,
                        topology.MEMBERS, later=True)

    def create_member(self, pool, host, port=80, **more):
        return self.sdk.create_member(
            pool, name=host, address=members.address(host),
            protocol_port=port, **more)

    def statuses(self, pool):
        """Name of a member → its operating status."""
        return {member.name: member.operating_status
                for member in self.sdk.members(pool)}

    def wait_statuses(self, pool, wanted):
        self.wait(f'{wanted}', lambda: self.statuses(pool) == wanted)

    def delete_balancer(self, balancer, cascade=True):
        if not self.exists(balancer):
            return
        self.wait_settled(balancer)
        self.when_answered(lambda: self.sdk.delete_load_balancer(
            balancer.id, cascade=cascade))
        self.wait_gone(balancer)

    def wait_gone(self, balancer):
        self.wait(f'end of {balancer.name}',
                  lambda: not self.exists(balancer))

    def exists(self, balancer):
        try:
            self.sdk.get_load_balancer(balancer.id)
        except exceptions.NotFoundException:
            return False
        return True

    # The fabric

    def url(self, balancer, port=80):
        address = balancer.vip_address
        if ':' in address:
            address = f'[{address}]'
        return f'http://{address}:{port}/'

    def next_hops(self, balancer):
        return router.next_hops(self.lab, balancer.vip_address)

    def wait_routes(self, balancer, hosts=topology.NODES):
        """Wait until the router sends packets to just these nodes."""
        version = 6 if ':' in balancer.vip_address else 4
        wanted = sorted(nodes.address(host, version) for host in hosts)
        self.wait(f'routes through {hosts}',
                  lambda: self.next_hops(balancer) == wanted, interval=0.2)

    # The nodes

    def datapath(self, node):
        """The node's forwarding state, opened beside its processes."""
        opened = inspection.Inspection(
            str(nodes.pin_directory(self.lab, node)),
            str(nodes.run_directory(self.lab, node) / 'datapath.lock'),
            library=str(paths.LIBRARY))
        self.addCleanup(opened.close)
        return opened

    def key(self, balancer, protocol='TCP', port=80):
        return datapath.Key(balancer.vip_address,
                            rules.transport(protocol), port)

    def enabled(self, node, balancer, protocol='TCP', port=80):
        """How many members take traffic on a node."""
        with self.datapath(node) as opened:
            service = opened.service(self.key(balancer, protocol, port))
        return service.enabled if service else 0

    def wait_enabled(self, balancer, number, protocol='TCP', port=80):
        """Wait until so many members take traffic on each node."""
        for node in topology.NODES:
            self.wait(f'{number} members on {node}', lambda node=node: (
                self.enabled(node, balancer, protocol, port) == number))

    def stored(self):
        """Every document and generation in the controllers' database.

        What is deleted goes when the nodes are done with it.
        """
        return sorted(
            (row.id, row.generation, row.document) for row
            in self.store().load_balancers.select() if not row.deleted)

    def store(self):
        """The controllers' database."""
        if self.lab.name not in _stores:
            _stores[self.lab.name] = queries.Store(schema.context_manager(
                product_options.load(config_files=[
                    str(lab_octavia.provider_configuration(self.lab))])))
        return _stores[self.lab.name]

    def manage(self, *words):
        """What octavia-xdp-manage says."""
        return lab_octavia.manage(self.lab, *words)

    def managed(self, *words):
        """What its JSON says."""
        return json.loads(self.manage(*words, '-f', 'json'))

    def controller_pid(self):
        """Process id of the controller below octavia-driver-agent."""
        for pid in namespaces.processes_in(self.lab, paths.CONTROL):
            with contextlib.suppress(OSError):
                line = pathlib.Path(f'/proc/{pid}/cmdline').read_bytes()
                if b'octavia_xdp_provider.cmd.controller' in line:
                    return pid
        return None

    def started(self, node, *wanted):
        """Start a node's processes again that do not run, of all by default.
        """
        for process in wanted or nodes.PROCESSES:
            if not processes.alive(self.lab, nodes.name(node, process)):
                nodes.start(self.lab, node, process)

    def killed(self, node, *wanted):
        """KILL processes of a node, all by default, which run again when the
        test is over."""
        self.addCleanup(self.started, node, *wanted)
        nodes.kill(self.lab, node, *wanted)

    def reconfigure(self, options, *hosts):
        """Let nodes run with options, or with none, until the test is over.
        """
        for node in hosts or topology.NODES:
            self.addCleanup(self._reconfigure, node, None)
            self._reconfigure(node, options)

    def _reconfigure(self, node, options):
        nodes.configure(self.lab, node, options)
        nodes.restart(self.lab, node, nodes.AGENT)

    # The members

    def end_server(self, name):
        """End a member's server, which runs again when the test is over."""
        self.addCleanup(self.start_server, name)
        processes.kill(self.lab, name, signal.SIGTERM)
        self.wait(f'end of {name}',
                  lambda: not processes.alive(self.lab, name), interval=0.05)

    def start_server(self, name):
        if not processes.alive(self.lab, name):
            processes.restart(self.lab, name)

    def sleep(self, seconds):
        time.sleep(seconds)
