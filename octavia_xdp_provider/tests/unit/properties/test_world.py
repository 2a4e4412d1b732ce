# SPDX-License-Identifier: Apache-2.0
"""A deployment that cannot be made leaves nothing behind for other tests."""

import os
import tempfile
import threading
import time
from unittest import mock

from octavia_xdp_provider.config import options
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.driver import bounded_calls
from octavia_xdp_provider.driver import controller_client
from octavia_xdp_provider.process import link
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.properties import machines
from octavia_xdp_provider.tests.unit.properties import node
from octavia_xdp_provider.tests.unit.properties import world

_BEFORE = (options.load, rpc.DriverClient, bounded_calls.within)


class Broken(Exception):
    """What the tests let fail."""


class TestWorld(base.TestCase):

    def setUp(self):
        super().setUp()
        self.addCleanup(controller_client.ControllerClient.forget)

    def assert_nothing_left(self):
        self.assertIs(time, link.time)
        self.assertIs(threading, bounded_calls.threading)
        self.assertEqual(_BEFORE, (
            controller_client.options.load, rpc.DriverClient,
            bounded_calls.within))

    def test_a_world_that_cannot_be_made_undoes_its_patches(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        with mock.patch.object(node, 'Node', side_effect=Broken):
            self.assertRaises(
                Broken, world.World, directory.name,
                lambda text: self.load(text), machines.manager)
        self.assert_nothing_left()

    def test_a_machine_that_cannot_be_made_leaves_no_world(self):
        made = []

        def fail(one):
            made.append(one._path)
            raise Broken
        with mock.patch.object(world.World, 'round', fail):
            self.assertRaises(Broken, machines.Machine)
        self.assert_nothing_left()
        self.assertFalse(os.path.exists(os.path.dirname(made[0])))


class TestAddresses(base.TestCase):

    def test_neutron_gives_no_address_out_that_an_open_creation_has(self):
        machine = machines.Machine()
        self.addCleanup(machine._stack.close)

        def create(commits):
            before = set(machine.octavia.trees) | set(
                machine.octavia.transactions)
            machine.create(seed=0, faults=False, vip=0, addresses=[],
                           monitored=False, commits=commits)
            return (set(machine.octavia.trees) | set(
                machine.octavia.transactions)) - before
        key, = create(None)
        self.assertEqual(set(), create(True))
        self.assertEqual([key], machine.octavia.transactions)
        vips = machine.octavia.vips
        machine.end_transaction(0, False)
        self.assertEqual(1, len(vips - machine.octavia.vips))
