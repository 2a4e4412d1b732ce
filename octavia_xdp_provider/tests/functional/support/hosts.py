# SPDX-License-Identifier: Apache-2.0
"""Hosts with links and datapaths of a test's own, which are gone after it."""

import os
import shutil

from oslotest import base
from testtools import content

from lab import namespaces
from lab import paths
from lab import processes
from octavia_xdp_provider.tests import instrumented
from octavia_xdp_provider.tests.functional.support import private_node
from octavia_xdp_provider.tests.support import waiting


class HostsCase(waiting.Waiting, base.BaseTestCase):
    """Needs root.

    :ivar lab: in whose namespaces hosts are, of this test alone.
    """

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest('network namespaces need root')
        self.lab = paths.Lab(f'test-{os.getpid()}')
        self.lab.make_directories()
        self.addCleanup(self._remove_directories)

    def add_hosts(self, *names):
        for name in names:
            namespaces.create(self.lab, name)
            self.addCleanup(self._delete, name)

    def add_behind(self, router, name, *addresses, link='eth0'):
        """A host on a link to a router's interface of its name.

        :param addresses: pairs, the host's and the router's.
        """
        self.add_hosts(name)
        self.connect_behind(router, name, *addresses, link=link)

    def connect_behind(self, router, name, *addresses, link='eth0'):
        self.cable((name, link, *(own for own, _ in addresses)),
                   (router, name, *(gateway for _, gateway in addresses)))
        for _, gateway in addresses:
            self.ip(name, 'route', 'add', 'default', 'via', gateway)

    def cable(self, *ends):
        """A link between two hosts.

        :param ends: host, name of the interface, and addresses of a /24 or a
            /64.
        """
        namespaces.veth(self.lab, *(end[:2] for end in ends))
        for host, link, *addresses in ends:
            for address in addresses:
                namespaces.address(
                    self.lab, host, link,
                    f'{address}/{64 if ":" in address else 24}')

    def fill_in(self, host, link, *more):
        """Packets leave with their checksums, and none is to be cut:
        programs know nothing of what is left to a device.
        """
        processes.run(self.lab, host, ['ethtool', '-K', link, 'tx', 'off',
                                       'gso', 'off', *more])

    def ip(self, host, *words):
        return processes.run(self.lab, host, ['ip', *words]).stdout

    def mac(self, host, link):
        words = self.ip(host, '-o', 'link', 'show', link).split()
        return words[words.index('link/ether') + 1]

    @property
    def bpffs(self):
        return self.lab.run_directory / 'bpf'

    def mount_bpffs(self):
        self.bpffs.mkdir()
        processes.run(self.lab, None, ['mount', '-t', 'bpf', 'bpf',
                                       self.bpffs])
        self.addCleanup(processes.run, self.lab, None,
                        ['umount', '-l', self.bpffs])

    def lock(self, name):
        """The lock file of a datapath; see open()."""
        return str(self.lab.run_directory / f'{name}.lock')

    def open(self, name):
        """A datapath on the BPF file system."""
        if not os.path.exists(private_node.library_path()):
            self.skipTest('the library is not built (make -C datapath)')
        opened = instrumented.Datapath(
            str(self.bpffs / name), self.lock(name), create=True,
            services_max=16, members_max=64, slots_max=1009,
            library=private_node.library_path())
        self.addCleanup(opened.close)
        return opened

    def _delete(self, host):
        if namespaces.exists(self.lab, host):
            namespaces.delete(self.lab, host)

    def _remove_directories(self):
        for log in self.lab.logs.iterdir():
            self.addDetail(log.name, content.text_content(
                log.read_text(errors='replace')))
        self.lab.remove_directories()
        shutil.rmtree(self.lab.directory)
