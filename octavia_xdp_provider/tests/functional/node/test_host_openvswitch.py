# SPDX-License-Identifier: Apache-2.0
"""A tap that is a port of the kernel's Open vSwitch, as on hypervisors in
production: its programs come first, and Open vSwitch has the rest.

Needs a kernel with Open vSwitch, as Debian's are (tools/on-kernel), and its
tools below build/ovn, where the lab unpacks them.
"""

import os
import re
import socket
import subprocess

from lab.ovn import packages
from octavia_xdp_provider.tests.functional.support import fabric
from octavia_xdp_provider.tests.functional.support import hypervisor

SWITCH = 'system@br0'
OWN_PORT = 5353  # of what the VM sends by itself


class TestOpenVswitch(hypervisor.HypervisorWithVm):

    def setUp(self):
        super().setUp()
        if not packages.DIRECTORY.is_dir():
            self.skipTest('Open vSwitch is not unpacked: python -m '
                          'lab.ovn.packages does it')
        subprocess.run(('modprobe', 'openvswitch'), check=False,
                       stderr=subprocess.DEVNULL)
        try:
            self.dpctl('add-dp', SWITCH)
        except subprocess.CalledProcessError as error:
            if 'Protocol not available' not in error.stderr and (
                    'No such file' not in error.stderr):
                raise
            self.skipTest('the kernel has no Open vSwitch')
        self.addCleanup(self.dpctl, 'del-dp', SWITCH)
        self.dpctl('add-if', SWITCH, self.vm.tap)

    def dpctl(self, *words):
        return subprocess.run(
            ('ip', 'netns', 'exec', self.member,
             packages.program('ovs-dpctl'), *words), check=True, text=True,
            capture_output=True,
            env={**os.environ, **packages.search_paths()}).stdout

    def seen(self):
        """Packets that Open vSwitch had no flow for: it has none at all."""
        return int(re.search(r'missed:(\d+)',
                             self.dpctl('show', SWITCH)).group(1))

    def test_programs_at_a_tap_come_before_open_vswitch(self):
        for version in hypervisor.FAMILIES:
            client, server = self.connect(self.server(self.vm, version),
                                          version)
            for _ in range(20):
                self.exchange(client, server)
        entries = [one for one in self.host.entries()
                   if one.entry.protocol == 'tcp']
        # Each of both answers is one packet at least.
        for one in entries:
            self.assertGreaterEqual(one.packets_out, 20)
        before = self.seen()
        self.assertLess(before, 20)  # the VM looked for neighbours
        own = self.socket(self.vm.namespace, socket.AF_INET,
                          socket.SOCK_DGRAM)
        for _ in range(50):
            own.sendto(b'own', (fabric.CLIENT, OWN_PORT))
        self.assertGreaterEqual(self.seen(), before + 50)
