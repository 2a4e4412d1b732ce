# SPDX-License-Identifier: Apache-2.0
"""A tenant who does all that its rights allow, beside another one.

How much slower the other one gets is written to ``build/isolation.json``, as
a ratio to a run in which the same attackers work as hard on what the product
does not serve.
"""

import contextlib
import functools
import ipaddress
import statistics
import time
import uuid

from openstack import exceptions

from lab import cloud
from lab import paths
from lab.fabric import client
from lab.fabric import connections
from lab.fabric import members
from lab.fabric import nodes
from lab.fabric import topology
from octavia_xdp_provider.tests.e2e.support import figures
from octavia_xdp_provider.tests.e2e.support import shared
from octavia_xdp_provider.tests.e2e.support import strangers

# Packets a second, of each flood; what a machine with two processors does
# beside everything else.
RATE = 4000
CALLERS = 2
# Members of its largest pool: valid addresses that no host has.
ABSENT = [str(ipaddress.IPv4Address('198.19.0.1') + number)
          for number in range(150)]
# Octavia's driver agent has a transaction for the status of each member.
GONE_S = 300
CONNECTIONS = 40
CHANGES = 8
PORT = 80
_REFUSED = (403, 404)


class Stranger(shared.WebTestCase):
    """``self.stranger``: the SDK's load balancers as the other project has
    them."""

    def setUp(self):
        super().setUp()
        name = self.unique('stranger')
        self.addCleanup(strangers.create(self.lab, name))
        self.user = name
        self.stranger = self.connection(name).load_balancer

    def create_strangers(self, **more):
        """A load balancer of the other project, ACTIVE."""
        balancer = self.stranger.create_load_balancer(
            name=self.unique('lb'), provider='xdp',
            vip_subnet_id=self.subnet('vips-v4'), **more)
        self.addCleanup(self.delete_strangers, balancer.id)
        self.wait_active(balancer)
        return balancer

    def wait_settled(self, balancer):
        with self.as_admin():
            return super().wait_settled(balancer)

    @contextlib.contextmanager
    def as_admin(self):
        own, self.sdk = self.sdk, self.connection(cloud.ADMIN).load_balancer
        try:
            yield self.sdk
        finally:
            self.sdk = own

    def delete_strangers(self, balancer_id):
        with self.as_admin() as admin:
            self.wait('the end of its changes',
                      lambda: self.is_deleted(admin, balancer_id), GONE_S)

    def is_deleted(self, admin, balancer_id):
        try:
            admin.delete_load_balancer(balancer_id, ignore_missing=False,
                                       cascade=True)
        except exceptions.NotFoundException:
            return True
        except exceptions.ConflictException:
            return False
        return False


class TestHostileTenant(Stranger):

    def test_others_lose_nothing_while_it_does_all_it_can(self):
        target = self.create_target()
        control = self.measure(self.attackers_of_others())
        hostile = self.measure(self.attackers(target))
        figures.record('beside a hostile tenant', control, hostile)

    # The hostile tenant's objects and actions

    def create_target(self):
        return self.create_strangers(listeners=self.listeners(
            ({'address': address, 'protocol_port': PORT}
             for address in ABSENT), PORT, monitor='TCP', max_retries=1))

    def attackers(self, target):
        pool = next(iter(self.stranger.pools(loadbalancer_id=target.id)))
        listed = [{'address': address, 'protocol_port': PORT}
                  for address in ABSENT]
        flood = functools.partial(strangers.Flood, self.lab,
                                  target.vip_address)
        return [
            flood(PORT, RATE),
            strangers.Caller(self.lab, self.connect, functools.partial(
                change_members, pool.id, listed)),
            *(strangers.Caller(self.lab, self.connect, functools.partial(
                create_and_delete, self.subnet('vips-v4')))
              for _ in range(CALLERS - 1))]

    def attackers_of_others(self):
        """They send as much to an address of the fabric's that is no VIP, and
        call Neutron."""
        network = self.connection(self.user).network.create_network(
            name=self.unique('network'))
        self.addCleanup(self.connection(cloud.ADMIN).network.delete_network,
                        network)
        return [
            strangers.Flood(self.lab, members.address(topology.MEMBERS[-1]),
                            PORT + 1, RATE),
            *(strangers.Caller(self.lab, self.connect, functools.partial(
                create_port, network.id)) for _ in range(CALLERS))]

    def connect(self):
        return cloud.connect(self.lab, self.user)

    # The neighbour's view

    def measure(self, attackers):
        """Name of a figure → seconds. Everything of it has to work."""
        with strangers.all_of(attackers), connections.Connections(
                self.lab, self.balancer.vip_address, number=CONNECTIONS,
                timeout=30) as held:
            before = held.ask()
            self.assertEqual(set(topology.MEMBERS), set(before))
            with client.Load(self.lab, self.url(self.balancer),
                             timeout=30) as load:
                changes = [self.change() for _ in range(CHANGES)]
                self.assertEqual(before, held.ask())
            self.assertEqual([], load.answers.failures)
            self.assertEqual(set(topology.MEMBERS), set(load.answers.count))
            requests = self.seconds(lambda: self.check_requests(200))
            down = self.member_down()
            self.assertEqual(before, self.asked_but_of(held, before))
            self.assertEqual(
                dict.fromkeys(topology.MEMBERS, 'ONLINE'),
                self.statuses(self.pool))
            for attacker in attackers:
                self.check_at_work(attacker)
        return {'change': statistics.median(changes),
                'request': requests / 200, 'member_down': down}

    def check_at_work(self, attacker):
        if isinstance(attacker, strangers.Flood):
            self.assertTrue(attacker.is_alive)
        else:
            self.assertGreater(attacker.count['ok'], 0, attacker.count)

    def seconds(self, function):
        begin = time.monotonic()
        function()
        return time.monotonic() - begin

    def change(self):
        """A member's weight, which every node has."""
        member = self.made[topology.MEMBERS[0]]
        weight = 1 + (self.sdk.get_member(member.id, self.pool).weight % 2)
        return self.seconds(lambda: self._change_member(
            member, {'weight': weight}))

    def member_down(self):
        """From the end of a server until no node sends it anything."""
        host = topology.MEMBERS[-1]
        name = members.http_name(host)
        self.end_server(name)
        took = self.seconds(lambda: self.wait_enabled(
            self.balancer, len(topology.MEMBERS) - 1))
        self.wait_statuses(self.pool, {
            other: 'ERROR' if other == host else 'ONLINE'
            for other in topology.MEMBERS})
        self.start_server(name)
        self.wait_enabled(self.balancer, len(topology.MEMBERS))
        self.wait_statuses(self.pool,
                           dict.fromkeys(topology.MEMBERS, 'ONLINE'))
        return took

    def asked_but_of(self, held, before):
        """Return the members that answer, without the ended server's."""
        gone = topology.MEMBERS[-1]
        return [was if was == gone else now
                for was, now in zip(before, held.ask(), strict=True)]


class TestForeignIds(Stranger):
    """Ids and addresses of others, in calls of the API."""

    def test_what_is_anothers_is_not_there(self):
        stored = self.of_mine()
        sdk, pool, balancer = self.stranger, self.pool.id, self.balancer.id
        monitor = self.sdk.get_pool(pool).health_monitor_id
        member = next(iter(self.made.values())).id
        for name, call in {
                'load balancer': lambda: sdk.get_load_balancer(balancer),
                'its status': lambda: checked(sdk.get(
                    f'/lbaas/loadbalancers/{balancer}/status')),
                'its statistics': lambda:
                    sdk.get_load_balancer_statistics(balancer),
                'renaming it': lambda: sdk.update_load_balancer(
                    balancer, name='mine'),
                'failover': lambda: checked(sdk.put(
                    f'/lbaas/loadbalancers/{balancer}/failover')),
                'deleting it': lambda: sdk.delete_load_balancer(
                    balancer, ignore_missing=False, cascade=True),
                'a listener in it': lambda: sdk.create_listener(
                    load_balancer_id=balancer, protocol='TCP',
                    protocol_port=8081),
                'its listener': lambda: sdk.update_listener(
                    self.listener.id, is_admin_state_up=False),
                'deleting its listener': lambda: sdk.delete_listener(
                    self.listener.id, ignore_missing=False),
                'a pool in it': lambda: sdk.create_pool(
                    loadbalancer_id=balancer, protocol='TCP',
                    lb_algorithm='SOURCE_IP_PORT'),
                'its pool': lambda: sdk.update_pool(
                    pool, is_admin_state_up=False),
                'deleting its pool': lambda: sdk.delete_pool(
                    pool, ignore_missing=False),
                'a member in its pool': lambda: sdk.create_member(
                    pool, address=members.address('member1'),
                    protocol_port=81),
                'its member': lambda: sdk.update_member(
                    member, pool, weight=0),
                'deleting its member': lambda: sdk.delete_member(
                    member, pool, ignore_missing=False),
                'all members': lambda: checked(sdk.put(
                    f'/lbaas/pools/{pool}/members', json={'members': []})),
                'its monitor': lambda: sdk.update_health_monitor(
                    monitor, delay=60),
                'deleting its monitor': lambda: sdk.delete_health_monitor(
                    monitor, ignore_missing=False)}.items():
            with self.subTest(name):
                self.assertIn(self.refusal(call), _REFUSED)
        self.assertEqual(stored, self.of_mine())
        self.check_requests(20)

    def refusal(self, call):
        with self.assertRaises(exceptions.HttpException) as refused:
            call()
        return refused.exception.status_code

    def of_mine(self):
        return [row for row in self.stored() if row[0] == self.balancer.id]

    def test_its_pool_does_not_serve_anothers_listener(self):
        own = self.create_strangers()
        self.assertIn(self.refusal(lambda: self.stranger.create_listener(
            load_balancer_id=own.id, protocol='TCP', protocol_port=PORT,
            default_pool_id=self.pool.id)), (400, *_REFUSED))

    def test_addresses_of_nodes_and_of_anothers_vip_are_no_members(self):
        own = self.create_strangers()
        pool = self.stranger.create_pool(
            loadbalancer_id=own.id, protocol='TCP',
            lb_algorithm='SOURCE_IP_PORT')
        self.wait_active(own)
        for address in (self.balancer.vip_address, own.vip_address,
                        nodes.address('lb1'), nodes.address('lb2'),
                        paths.CONTROL_ADDRESS, '127.0.0.1', '224.0.0.1'):
            with self.subTest(address):
                self.assertIn(self.refusal(functools.partial(
                    self.stranger.create_member, pool, address=str(address),
                    protocol_port=PORT)), (400, 501))
            self.wait_active(own)
        self.check_requests(20)

    def test_anothers_vip_is_not_taken(self):
        self.assertIn(self.refusal(
            lambda: self.stranger.create_load_balancer(
                name=self.unique('lb'), provider='xdp',
                vip_subnet_id=self.subnet('vips-v4'),
                vip_address=self.balancer.vip_address)), (400, 409, 500))
        self.check_requests(20)


def checked(answer):
    """:raises HttpException: as the SDK does of its own calls."""
    exceptions.raise_from_response(answer)
    return answer


def change_members(pool_id, listed, connection, number):
    """All members of a pool, as soon as it may."""
    weighted = [{**member, 'weight': 1 + number % 3} for member in listed]
    checked(connection.load_balancer.put(
        f'/lbaas/pools/{pool_id}/members', json={'members': weighted}))


def create_and_delete(subnet_id, connection, number):
    sdk = connection.load_balancer
    made = sdk.create_load_balancer(
        name=f'hostile-{uuid.uuid4().hex[:8]}', provider='xdp',
        vip_subnet_id=subnet_id)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(exceptions.ConflictException):
            sdk.delete_load_balancer(made.id)
            return


def create_port(network_id, connection, number):
    connection.network.delete_port(connection.network.create_port(
        network_id=network_id))
