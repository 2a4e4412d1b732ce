# SPDX-License-Identifier: Apache-2.0
"""Settings that the monitor writes to the datapath; no thread runs."""

import pathlib
from unittest import mock

import fixtures

from octavia_xdp_provider.agent import uplinks_file
from octavia_xdp_provider.agent.uplinks import monitor
from octavia_xdp_provider.agent.uplinks import outages
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.node import netlink
from octavia_xdp_provider.tests.unit import base

NEXT_HOPS = {1: '198.51.101.1', 2: '198.51.102.1'}


class TestUplinkMonitor(base.TestCase):

    def setUp(self):
        super().setUp()
        self.links = {index: netlink.Link(
            index, f'eth{index}', f'02:00:00:00:0{index}:02', 1500, True,
            has_program=True) for index in (1, 2)}
        self.sources = {(1, 4): '198.51.101.2', (2, 4): '198.51.102.2'}
        self.neighbours = {
            (index, next_hop): netlink.Neighbour(f'02:00:00:00:0{index}:01')
            for index, next_hop in NEXT_HOPS.items()}
        self.datapath = mock.Mock(spec=datapath.Datapath)
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.start()

    def start(self, text='', uplinks='eth1, eth2'):
        self.changed = mock.Mock()
        self.monitor = monitor.UplinkMonitor(
            self.load(f'[agent]\nrun_directory = {self.directory}\n'
                      f'uplinks = {uplinks}\n{text}'),
            self.datapath, self.changed)
        self.monitor._events = mock.Mock(spec=netlink.Events)
        self.monitor._kernel = mock.Mock(spec=netlink.Kernel)
        self.monitor._kernel.links_with_program.side_effect = (
            lambda: list(self.links.values()))

    def look(self):
        self.monitor._kernel.snapshot.return_value = netlink.Snapshot(
            self.links, self.sources,
            tuple(netlink.Route(4, *hop) for hop in NEXT_HOPS.items()),
            self.neighbours)
        return self.monitor._look()

    def in_force(self):
        """Interfaces of the uplinks that the datapath was given last."""
        return [uplink.ifindex for uplink
                in self.datapath.set_uplinks.call_args.args[0]]

    def node(self):
        return self.datapath.set_node.call_args.args[0]

    def test_only_changes_reach_the_datapath(self):
        for _ in range(3):
            self.assertEqual(monitor.RESCAN_S, self.look())
        self.assertEqual([1, 2], self.in_force())
        self.assertEqual([mock.call(1), mock.call(2)],
                         self.datapath.attach.call_args_list)
        self.datapath.set_uplinks.assert_called_once()
        self.datapath.set_node.assert_called_once()
        self.changed.assert_called_once()
        self.assertEqual({4}, self.monitor.ready)

    def test_interface_without_driver_mode_is_skipped(self):
        def attach(index):
            if index == 1:
                raise datapath.DatapathError(95, 'no driver mode')
        self.datapath.attach.side_effect = attach
        self.look()
        self.assertEqual([2], self.in_force())
        self.assertIn('no driver mode', self.monitor.states[0].problem)
        self.datapath.attach.side_effect = None
        self.look()
        self.assertEqual([1, 2], self.in_force())

    def test_program_that_is_gone_is_attached_again(self):
        self.look()
        self.links[2] = self.links[2]._replace(has_program=False)
        self.look()
        self.assertEqual(mock.call(2), self.datapath.attach.call_args)
        self.assertEqual(3, self.datapath.attach.call_count)

    def test_failure_is_tried_again(self):
        self.datapath.set_uplinks.side_effect = OSError(5, 'no')
        self.assertEqual(monitor.RETRY_S, self.look())
        self.datapath.set_uplinks.side_effect = None
        self.assertEqual(monitor.RESCAN_S, self.look())
        self.assertEqual([1, 2], self.in_force())

    def test_programs_of_others_stay(self):
        self.links[3] = self.links[1]._replace(index=3, name='eth3')
        self.datapath.detach.side_effect = datapath.DatapathError(2, 'no')
        self.look()
        self.look()
        self.datapath.detach.assert_called_once_with(3)
        self.assertEqual([1, 2], self.in_force())

    def test_uplinks_of_a_predecessor_stay_until_next_hops_answer(self):
        self.monitor._first_answers_until = float('inf')
        self.neighbours[1, NEXT_HOPS[1]] = netlink.Neighbour(None)
        self.assertEqual(monitor.RETRY_S, self.look())
        self.datapath.set_uplinks.assert_not_called()
        self.monitor._kernel.resolve.assert_called_once_with(1, NEXT_HOPS[1])
        self.monitor._first_answers_until = 0.0
        self.look()
        self.assertEqual([2], self.in_force())
        # From then on nothing waits.
        self.monitor._first_answers_until = float('inf')
        self.neighbours[2, NEXT_HOPS[2]] = netlink.Neighbour(None, failed=True)
        self.neighbours[1, NEXT_HOPS[1]] = netlink.Neighbour(
            '02:00:00:00:01:01')
        self.look()
        self.assertEqual([1], self.in_force())

    def test_node_settings_by_default(self):
        self.look()
        self.assertEqual(
            datapath.NodeSettings(
                '198.51.101.2', None, 0, 0,
                datapath.NodeFlag.ECHO | datapath.NodeFlag.CLAMP_MSS, 1000),
            self.node())

    def test_node_settings_follow_the_options(self):
        self.start('outer_source = 192.0.2.16\nouter_entropy = 4\n'
                   'outer_source_v6 = 2001:db8::100\nouter_entropy_v6 = 8\n'
                   '[datapath]\necho_reply = false\nclamp_mss = false\n'
                   'fragmentable = pass\nnext_hop = routes\nicmp_rate = 7\n')
        self.links = {
            number: link._replace(forwards=frozenset({4, 6}))
            for number, link in self.links.items()}
        self.look()
        self.assertEqual(
            datapath.NodeSettings(
                '192.0.2.16', '2001:db8::100', 4, 8,
                datapath.NodeFlag.PASS_TOO_BIG | datapath.NodeFlag.FIB, 7),
            self.node())
        self.assertEqual({4, 6}, self.monitor.ready)

    def test_source_stays_while_an_uplink_has_it(self):
        self.start(uplinks='eth2, eth1')
        self.look()
        self.assertEqual('198.51.102.2', self.node().source_v4)
        self.links[2] = self.links[2]._replace(carrier=False)
        self.look()
        self.assertEqual('198.51.102.2', self.node().source_v4)
        del self.sources[2, 4]
        self.look()
        self.assertEqual('198.51.101.2', self.node().source_v4)
        self.sources[2, 4] = '198.51.102.2'
        self.look()
        self.assertEqual('198.51.101.2', self.node().source_v4)

    def said(self):
        """Return the IPv4 entry of the health checker's file."""
        return uplinks_file.decode(pathlib.Path(
            self.directory, uplinks_file.FILE_NAME).read_bytes()).get(4)

    def lose(self, *indices):
        for index in indices:
            self.links[index] = self.links[index]._replace(
                carrier=False, carrier_losses=1)

    def test_health_checker_is_informed_when_the_last_uplink_is_lost(self):
        self.look()
        since = self.said().since_ns
        self.lose(1)
        self.look()
        self.assertEqual(since, self.said().since_ns)
        self.assertEqual(frozenset(), self.monitor.lost)
        self.changed.reset_mock()
        self.lose(2)
        self.assertEqual(monitor.RETRY_S, self.look())
        self.assertIsNone(self.said().since_ns)
        self.assertEqual({4, 6}, self.monitor.lost)
        self.changed.assert_called_once_with()
        self.links[1] = self.links[1]._replace(carrier=True)
        self.look()
        self.assertGreater(self.said().since_ns, since)
        self.assertEqual(frozenset(), self.monitor.lost)

    def test_file_is_written_only_if_it_says_something_new(self):
        self.look()
        with mock.patch.object(uplinks_file, 'write') as write:
            self.look()
        write.assert_not_called()

    def test_confirmation_is_requested_from_the_next_hops(self):
        self.look()
        self.look()
        self.monitor._kernel.confirm.assert_not_called()
        as_of = self.said().as_of_ns
        self.monitor.ask()
        self.monitor._events.wake.assert_called_once_with()
        # An entry of the kernel's neighbour table is no confirmation.
        self.assertEqual(monitor.ANSWER_LOOK_S, self.look())
        self.assertEqual(
            [mock.call(*hop) for hop in NEXT_HOPS.items()],
            self.monitor._kernel.confirm.call_args_list)
        self.assertEqual(as_of, self.said().as_of_ns)
        self.neighbours[2, NEXT_HOPS[2]] = netlink.Neighbour(
            '02:00:00:00:02:01', confirmed=True)
        self.look()
        self.assertGreater(self.said().as_of_ns, as_of)

    def test_next_hops_that_do_not_answer_are_asked_until_they_do(self):
        self.look()
        self.monitor.ask()
        with mock.patch.object(outages, 'ANSWER_S', 0):
            self.look()
            self.assertIsNone(self.said().since_ns)
            # Packets go on to them, as nobody knows better.
            self.assertEqual([1, 2], self.in_force())
            self.assertEqual(frozenset(), self.monitor.lost)
            self.monitor._kernel.confirm.reset_mock()
            self.look()
        self.assertEqual(2, self.monitor._kernel.confirm.call_count)

    def test_full_directory_does_not_stop_the_monitor(self):
        with mock.patch.object(uplinks_file, 'write',
                               side_effect=OSError(28, 'full')):
            self.look()
        self.assertEqual([1, 2], self.in_force())
        self.look()
        self.assertIsNotNone(self.said().since_ns)
