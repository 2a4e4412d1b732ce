# SPDX-License-Identifier: Apache-2.0
"""A tenant who does all that its rights allow, beside another one."""

import contextlib
import functools
import ipaddress
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
from octavia_xdp_provider.tests.e2e.support import shared
from octavia_xdp_provider.tests.e2e.support import strangers

# Packets a second, of each flood; what a machine with two processors does
# beside everything else.
RATE = 4000
CALLERS = 2
# Of its largest pool: addresses that members may have, and nobody has.
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
        mine, self.sdk = self.sdk, self.connection(cloud.ADMIN).load_balancer
        try:
            yield self.sdk
        finally:
            self.sdk = mine

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
        attackers = self.attackers(self.create_target())
        with strangers.all_of(attackers), connections.Connections(
                self.lab, self.balancer.vip_address, number=CONNECTIONS,
                timeout=30) as held:
            before = held.ask()
            self.assertEqual(set(topology.MEMBERS), set(before))
            with client.Load(self.lab, self.url(self.balancer),
                             timeout=30) as load:
                for _ in range(CHANGES):
                    self.change()
                self.assertEqual(before, held.ask())
            self.assertEqual([], load.answers.failures)
            self.assertEqual(set(topology.MEMBERS), set(load.answers.count))
            self.check_requests(200)
            self.take_member_down()
            self.assertEqual(before, self.asked_but_of(held, before))
            self.assertEqual(
                dict.fromkeys(topology.MEMBERS, 'ONLINE'),
                self.statuses(self.pool))
            for attacker in attackers:
                self.check_at_work(attacker)

    # What it has, and what it does with it

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

    def connect(self):
        return cloud.connect(self.lab, self.user)

    # What the other one sees

    def check_at_work(self, attacker):
        if isinstance(attacker, strangers.Flood):
            self.assertTrue(attacker.is_alive)
        else:
            self.assertGreater(attacker.count['ok'], 0, attacker.count)

    def change(self):
        """A member's weight, which every node has."""
        member = self.made[topology.MEMBERS[0]]
        weight = 1 + (self.sdk.get_member(member.id, self.pool).weight % 2)
        self._change_member(member, {'weight': weight})

    def take_member_down(self):
        """Until no node sends it anything, and up again."""
        host = topology.MEMBERS[-1]
        name = members.http_name(host)
        self.end_server(name)
        self.wait_enabled(self.balancer, len(topology.MEMBERS) - 1)
        self.wait_statuses(self.pool, {
            other: 'ERROR' if other == host else 'ONLINE'
            for other in topology.MEMBERS})
        self.start_server(name)
        self.wait_enabled(self.balancer, len(topology.MEMBERS))
        self.wait_statuses(self.pool,
                           dict.fromkeys(topology.MEMBERS, 'ONLINE'))

    def asked_but_of(self, held, before):
        """Who answers now, but for the member whose server has ended."""
        gone = topology.MEMBERS[-1]
        return [was if was == gone else now
                for was, now in zip(before, held.ask(), strict=True)]


class TestForeignIds(Stranger):
    """Ids and addresses of others, in calls of the API."""

    def refusal(self, call):
        with self.assertRaises(exceptions.HttpException) as refused:
            call()
        return refused.exception.status_code

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
