# SPDX-License-Identifier: Apache-2.0
"""An LB node in a namespace, with its passes, checker and result handler.

A test makes passes by itself; all else are the product's processes.
"""

import sys
import types

from lab import namespaces
from lab import paths
from lab import processes
from octavia_xdp_provider.agent import plans
from octavia_xdp_provider.agent import probes
from octavia_xdp_provider.agent import reconcile
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.agent.uplinks import monitor
from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.config import options
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.node import netlink
from octavia_xdp_provider.node import run_directory
from octavia_xdp_provider.tests.functional.support import private_node

_CONFIGURATION = '''
[vip]
allowed_networks = {networks}
[agent]
run_directory = {run}
uplinks = eth0
withdraw_grace = 0
probe_through_datapath = true
[datapath]
library = {library}
pin_directory = {pins}
services_max = 64
slots = 1009
'''


class WholeNode:
    """:param case: a HostsCase with a BPF file system and this host, whose
        uplink is eth0.
    """

    def __init__(self, case, host, vip_networks):
        self._case, self._lab, self.host = case, case.lab, host
        run = self._lab.run_directory / host
        run.mkdir()
        self._path = run / 'conf'
        self._path.write_text(_CONFIGURATION.format(
            networks=', '.join(vip_networks), run=run,
            library=private_node.library_path(), pins=case.bpffs / host))
        self._conf = options.load(config_files=[str(self._path)])
        self._files = run_directory.RunDirectory(self._conf)
        self._files.make()
        self.datapath = self._files.open_datapath(create=True)
        case.addCleanup(self.datapath.close)
        with namespaces.inside(self._lab, host):
            kernel = netlink.Kernel()
            case.addCleanup(kernel.close)
            uplinks = monitor.UplinkMonitor(self._conf, self.datapath,
                                            lambda: None)
            case.addCleanup(uplinks.stop)
            uplinks.start()
        policy = address_policy.AddressPolicy(
            tuple(option_values.networks(self._conf, 'vip',
                                         'allowed_networks')),
            (), frozenset())
        self._reconciler = reconcile.Reconciler(
            self._conf, types.SimpleNamespace(
                checks=self._files.checks,
                handler_wakeup=self._files.handler_wakeup),
            self.datapath, announcements.Announcements(
                str(run), policy.vip_networks),
            plans.Inputs(lambda: policy, probes=probes.Probes(
                self.datapath, kernel, ['eth0'], True)))
        self._generation = 0
        self.apply({})
        self._start('handler', [
            sys.executable, '-m', 'octavia_xdp_provider.cmd.result_handler',
            '--config-file', self._path])
        self._start('hc', [
            paths.HEALTH_CHECKER, 'run', '--checks', self._files.checks,
            '--queue', self._files.queue, '--marks'])

    def _start(self, name, words):
        name = f'{self.host}-{name}'
        processes.start(self._lab, self.host, name, words, cwd=paths.CHECKOUT)
        self._case.addCleanup(processes.stop, self._lab, name)

    def apply(self, documents):
        """Make a pass with these documents, as sent to LB nodes."""
        self._generation += 1
        with namespaces.inside(self._lab, self.host):
            outcome = self._reconciler.reconcile(
                reconcile.Wanted(self._generation, {
                    document['id']: (self._generation, document)
                    for document in documents}), frozenset((4, 6)))
        self._case.assertEqual({}, outcome.failed)

    def members(self, vip, port):
        """Return the addresses of a service's members that new flows go to.
        """
        return {member.address for member in self.datapath.members(
            datapath.Key(vip, 'TCP', port))
            if member.healthy and member.weight}
