# SPDX-License-Identifier: Apache-2.0
"""The agent's own code and the controller's, with a datapath in memory."""

import fixtures

from octavia_xdp_provider.host import address_sets
from octavia_xdp_provider.host import facts
from octavia_xdp_provider.host import fetching
from octavia_xdp_provider.host import link
from octavia_xdp_provider.host import reconcile
from octavia_xdp_provider.host.taps import Tap
from octavia_xdp_provider.process.agents import reports
from octavia_xdp_provider.process.agents import wanted
from octavia_xdp_provider.tests.unit.controller import hypervisors
from octavia_xdp_provider.tests.unit.host import fakes

TAPS = {port: Tap(f'tap{number}', 7 + number) for number, port
        in enumerate(hypervisors.PORTS.values())}


class Calls:
    """host_rpc.HostsClient, without a broker."""

    def __init__(self, endpoint):
        self._endpoint = endpoint

    def __getattr__(self, name):
        method = getattr(self._endpoint, name)
        return lambda *arguments: method({}, *arguments)


class Agent(hypervisors.Host):
    """A hypervisor with all that its agent does in a turn."""

    def __init__(self, test, name, number):
        super().__init__(test, name, number)
        self.folder = test.useFixture(fixtures.TempDir()).path
        self.datapath = fakes.Datapath(self.folder)
        self.start()

    def start(self):
        self.calls = Calls(self.endpoint)
        self.fetcher = fetching.Fetcher(
            self.calls, self.name, wanted.Cache(f'{self.folder}/wanted'),
            f'{self.folder}/common.json')
        self.reporter = reports.Reporter(sizes=link.HOSTS)
        self.reconciler = reconcile.Reconciler(
            self.datapath,
            address_sets.Numbers(f'{self.folder}/address-sets.json'),
            self.folder, lambda: 1000)

    def pass_(self):
        self.reporter.again(self.fetcher.fetch())
        self.fetcher.save()
        self.reconciler.reconcile(self.fetcher.wanted, TAPS)
        self.reporter.send(self.calls, self.name, reports.Facts(
            self.fetcher.wanted.as_of, self.reconciler.held,
            facts.read(self.datapath).counters(), self.state,
            self.fetcher.removed_as_of))

    def keys(self):
        return set(self.datapath.held_entries)


class TestWithController(hypervisors.ZeroTouchTestCase):

    def setUp(self):
        self.patch(hypervisors, 'Host', Agent)
        super().setUp()

    def test_members_are_served_and_leave_nothing(self):
        self.create()
        self.converge()
        entries = self.hv1.datapath.held_entries
        self.assertEqual(set(entries), {
            member['tunnel']['keys']['listener']
            for member in self.sent().values()})
        self.assertEqual(
            {(hypervisors.PORTS[name], address, 8080, 80)
             for name, address in hypervisors.ADDRESSES.items()},
            {(entry.port_id, entry.fixed, entry.port, entry.vip_port)
             for entry in entries.values()})
        self.assertEqual(4, len(self.hv1.datapath.pinned()))
        # an agent that starts again has nothing to do
        self.hv1.start()
        self.hv1.datapath.calls.clear()
        self.hv1.pass_()
        self.assertEqual({'attach', 'set_port'},
                         set(self.hv1.datapath.calls))
        self.store.load_balancers.delete('lb')
        self.step()
        self.hv1.pass_()
        self.assertEqual(2, len(self.hv1.keys()))
        self.report_held('lb1', self.row().generation, {})
        for _ in range(2):
            self.step()
            self.hv1.pass_()
        self.assertEqual([], self.store.hypervisors.objects())
        self.assertEqual(({}, {}, []), (
            self.hv1.datapath.held_ports, self.hv1.datapath.held_entries,
            self.hv1.datapath.pinned()))
