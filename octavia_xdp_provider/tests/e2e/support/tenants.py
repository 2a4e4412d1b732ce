# SPDX-License-Identifier: Apache-2.0
"""Tenants with VMs on hypervisors, for tests in a lab with OVN."""

import contextlib
import os
import unittest
import uuid

from lab import namespaces
from lab import paths
from lab import processes
from lab.ovn import tenants
from lab.ovn import vms
from octavia_xdp_provider.tests.e2e.support import base

WAIT_S = 60


class TenantsTestCase(base.LabTestCase):
    """Two tenants, each with a VM on either hypervisor.

    Both have the same subnet, and their VMs the same addresses. They stay
    for all tests of a class.
    """

    ADDRESSES = {'hv1': '10.0.0.11', 'hv2': '10.0.0.12'}
    ADDRESSES_V6 = {'hv1': 'fd00:10::11', 'hv2': 'fd00:10::12'}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        name = os.environ.get(base.VARIABLE)
        if not name:
            raise unittest.SkipTest(f'{base.VARIABLE} names no lab')
        lab = paths.Lab(name)
        if not namespaces.exists(lab, 'hv1'):
            raise unittest.SkipTest(f'lab {name} has no hypervisors: '
                                    'python -m lab up --fabric ovn')
        cls.lab = lab
        with contextlib.ExitStack() as inside:
            inside.enter_context(namespaces.inside(lab, paths.CONTROL))
            cls.cloud = tenants.Tenants(lab)
            suffix = uuid.uuid4().hex[:4]
            # Tenant → hypervisor → (VM, port); the first half is its name.
            cls.tenants, cls.vms, cls.ports = {}, {}, {}
            for color in 'red', 'blue':
                cls._make(color, f'{color}-{suffix}')
            processes.wait_for('ports', lambda: all(
                cls.cloud.is_active(port) for port in cls.ports.values()),
                WAIT_S)

    @classmethod
    def _make(cls, color, name):
        tenant = cls.cloud.create(name)
        cls.addClassCleanup(cls._outside, cls.cloud.delete, tenant)
        cls.tenants[color] = tenant
        for hypervisor, address in cls.ADDRESSES.items():
            vm = f'{name}-{hypervisor[-1]}'
            port = cls.cloud.create_port(tenant, hypervisor, address,
                                         cls.ADDRESSES_V6[hypervisor])
            vms.create(cls.lab, vm, hypervisor, cls.cloud.as_plugged(port))
            cls.addClassCleanup(vms.delete, cls.lab, vm)
            vms.start_http(cls.lab, vm)
            cls.vms[color, hypervisor] = vm
            cls.ports[vm] = port

    @classmethod
    def _outside(cls, function, *arguments):
        """Call something that talks to the cloud."""
        with namespaces.inside(cls.lab, paths.CONTROL):
            function(*arguments)

    def curl(self, vm, address, *options, port=vms.HTTP_PORT, timeout=5):
        """What a VM is answered, or None."""
        where = f'[{address}]' if ':' in address else address
        done = processes.run(
            self.lab, vm, ['curl', '-sS', '-f', '-m', str(timeout), *options,
                           f'http://{where}:{port}/'], check=False)
        return None if done.returncode else done.stdout.strip()

    def ping(self, vm, address):
        """Whether one of some requests is answered: the first waits for ARP.
        """
        return not processes.run(
            self.lab, vm, ['ping', '-n', '-c', '3', '-i', '0.2', '-W', '1',
                           address], check=False).returncode
