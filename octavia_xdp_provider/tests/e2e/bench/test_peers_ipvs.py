# SPDX-License-Identifier: Apache-2.0
"""IPVS beside this product, in a guest whose kernel has it."""

import dataclasses
import uuid

from oslotest import base

from bench import errors
from bench.beds import guest
from bench.beds import reading
from bench.declarations import definitions
from bench.engine import clients
from bench.engine import services
from bench.scenarios import model
from bench.software import ipvs
from bench.software import xdp
from bench.traffic import servers

# Emulated, on a busy machine.
SOON_S = 300
REQUESTS = 12


class TestIpvs(base.BaseTestCase):
    """One guest, for all tests; its members are addresses of one host."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        context = guest.Provider().build(
            reading.read(definitions.find('beds', 'one-node'), 'guest'),
            f'test-{uuid.uuid4().hex[:12]}')
        cls.bed = context.__enter__()
        cls.addClassCleanup(context.__exit__, None, None, None)
        cls.node = cls.bed.hosts['lb']
        cls.client = cls.bed.hosts['generator']

    def enter_context(self, context):
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value

    def serve(self, software):
        (service,), _ = self.enter_context(services.on(
            self.bed, model.Services(protocol='tcp', members=2)))
        self.enter_context(servers.http(self.bed, [service]))
        deployment = self.enter_context(software.deploy(
            self.bed, [service], {}))
        self.enter_context(clients.at([self.client], service.vip))
        return service, deployment

    def ask(self, service):
        done = self.client.run([
            'curl', '-sS', '-m', '60', '-H', 'Connection: close',
            *[f'http://{service.vip}:{service.port}/name'] * REQUESTS],
            timeout=SOON_S)
        self.assertEqual(['member'] * REQUESTS, done.stdout.split())

    def listed(self):
        return self.node.run(['ipvsadm', '--save', '--numeric'],
                             timeout=SOON_S).stdout.splitlines()

    def test_requests_members_and_costs(self):
        service, deployment = self.serve(ipvs.Ipvs())
        looks = [deployment.cpu_seconds()]
        for members in (service.members, service.members[:1],
                        service.members):
            changed = dataclasses.replace(service, members=members)
            deployment.set_members(changed)
            self.assertEqual(1 + len(members), len(self.listed()))
            self.ask(changed)
            looks.append(deployment.cpu_seconds())
        self.assertEqual(sorted(set(looks)), looks)
        memory = deployment.memory()
        self.assertGreater(memory['connections'], 0)
        self.assertGreater(memory['tables'], 0)
        self.doCleanups()
        self.assertEqual([], self.listed())

    def test_this_product_by_the_same_members(self):
        service, deployment = self.serve(xdp.Xdp())
        before = deployment.cpu_seconds()
        self.ask(service)
        self.assertGreater(deployment.cpu_seconds(), before)

    def test_ports_that_a_tunnel_cannot_change_are_refused(self):
        with services.on(self.bed, model.Services(
                protocol='tcp', members=1)) as ((service,), _):
            member = dataclasses.replace(service.members[0], port=1)
            error = self.assertRaises(
                errors.BenchError, ipvs.Ipvs().deploy(
                    self.bed, [dataclasses.replace(
                        service, members=(member,))], {}).__enter__)
        self.assertIn('a tunnel changes no port', str(error))
