# SPDX-License-Identifier: Apache-2.0
"""When a node asks others for UDP flows, and moves none before they ask."""

import errno
import ipaddress
from unittest import mock

import fixtures

from octavia_xdp_provider.agent import nat
from octavia_xdp_provider.agent import peers_wait
from octavia_xdp_provider.agent import seeking
from octavia_xdp_provider.api import nat as common_nat
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.unit.agent import nat_node
from octavia_xdp_provider.tests.unit.agent import reconciling

IDLE_S = 300
SEEK_S = IDLE_S + seeking.MARGIN_S
OTHERS_S = common_nat.OTHERS_S
# RFC 8326.
LAST_RESORT, USUAL = 'last resort', 'usual'


class SeekingTestCase(nat_node.NatTestCase):

    def setUp(self):
        super().setUp()
        self.node_nat = self.make()
        self.peers = nat_node.peers(
            a='198.51.100.8', **{self.node_nat.peers._host: '198.51.100.0'})

    def refresh(self, peers, moving=False):
        self.dataplane.calls.clear()
        self.node_nat.peers.want(peers, moving)
        self.node_nat.peers.refresh()
        return self.dataplane.calls


class TestPeers(SeekingTestCase):

    def test_flows_are_sought_before_there_are_other_peers(self):
        seek, peers = self.refresh(self.peers)
        self.assertEqual((('seek', SEEK_S), 'peers'), (seek, peers[0]))
        self.assertEqual([], self.refresh(self.peers))

    def test_restarted_agent_keeps_what_is_there(self):
        self.refresh(self.peers)
        self.dataplane.seeks_s = 7
        self.node_nat = self.make()
        self.assertEqual(['peers'], [
            call[0] for call in self.refresh(self.peers)])
        self.assertEqual(7, self.dataplane.seeks_s)

    def test_agent_killed_before_setting_peers_seeks_again(self):
        with mock.patch.object(self.dataplane, 'set_nat_peers',
                               side_effect=KeyboardInterrupt):
            self.assertRaises(KeyboardInterrupt, self.refresh, self.peers)
        self.dataplane.seeks_s = 0
        self.node_nat = self.make()
        self.assertIn(('seek', SEEK_S), self.refresh(self.peers))

    def test_node_without_other_peers_does_not_seek(self):
        self.assertEqual(['peers'], [call[0] for call in self.refresh(
            self.peers[1:], moving=True)])
        self.assertFalse(self.node_nat.peers.has_others)
        self.assertEqual(['peers'], [call[0] for call in self.refresh(
            self.peers[:1], moving=True)])

    def test_node_without_pools_does_not_seek(self):
        self.dataplane.seek_udp = self.dataplane.seeks_udp_s = None
        self.make('').peers.seek_udp()


class TestMoving(SeekingTestCase):

    def setUp(self):
        super().setUp()
        self.refresh(self.peers)
        self.dataplane.seeks_s = 0

    def test_seeking_continues_while_flows_are_moved(self):
        self.assertTrue(self.node_nat.peers.want(self.peers, True))
        self.assertFalse(self.node_nat.peers.want(self.peers, True))
        self.assertEqual([('seek', SEEK_S)], self.refresh(self.peers, True))
        self.dataplane.seeks_s -= seeking.SLACK_S
        self.assertEqual([], self.refresh(self.peers, True))
        self.dataplane.seeks_s -= 1
        self.assertEqual([('seek', SEEK_S)], self.refresh(self.peers, True))
        self.assertTrue(self.node_nat.peers.want(self.peers, False))
        self.dataplane.seeks_s = 0
        self.assertEqual([], self.refresh(self.peers))

    def test_seeking_lasts_as_long_as_the_idle_timeout(self):
        for idle, expected in (
                ((), IDLE_S), ((40, 4000), 4000), ((), IDLE_S)):
            self.node_nat.peers.seeking.longest(idle)
            self.dataplane.seeks_s = 0
            self.assertEqual([('seek', expected + seeking.MARGIN_S)],
                             self.refresh(self.peers, True))
        self.node_nat = self.make(udp_established_timeout=60,
                             udp_opening_timeout=90)
        self.dataplane.seeks_s = 0
        self.refresh(self.peers, True)
        self.assertEqual(90 + seeking.MARGIN_S, self.dataplane.seeks_s)
        self.node_nat.peers.seeking.longest([16000])
        self.refresh(self.peers, True)
        self.assertEqual(16000 + seeking.MARGIN_S, self.dataplane.seeks_s)
        # It is not made shorter, whatever is configured now.
        self.node_nat.peers.seeking.longest([])
        self.assertEqual([], self.refresh(self.peers, True))

    def test_refused_seeking_is_logged_once(self):
        self.dataplane.seek_udp = mock.Mock(
            side_effect=datapath.DatapathError(errno.EINVAL, 'too long'))
        with mock.patch.object(seeking, 'LOG') as log:
            for _ in range(2):
                self.refresh(self.peers, True)
        log.error.assert_called_once()
        self.dataplane.seek_udp.side_effect = datapath.DatapathError(
            errno.ESTALE, 'another library')
        self.assertRaises(datapath.DatapathError, self.refresh, self.peers,
                          True)


class TestAnnouncements(reconciling.ReconcilerTestCase):

    def setUp(self):
        super().setUp()
        self.conf = self.load(
            f'[agent]\nwithdraw_grace = 0\n[nat]\npools = {nat_node.POOL}\n')
        self.announce._networks.append(ipaddress.ip_network(nat_node.POOL))
        self.unmonitored()
        self.document['flavor'] = {'forwarding': 'nat'}
        self.protocol('UDP')
        self.now = 1000.0
        self.useFixture(fixtures.MockPatchObject(
            peers_wait, 'time', mock.Mock(monotonic=lambda: self.now)))
        # A previous agent has set them.
        self.datapath.peers = ['192.0.2.0', '198.51.100.0']
        self.restart()

    def protocol(self, protocol):
        self.document['listeners']['listener']['protocol'] = protocol
        self.document['pools']['pool']['protocol'] = protocol

    def restart(self):
        self.nat = nat.Nat(self.conf, self.datapath, tuple)
        self.reconciler = self.make(self.conf, nat=self.nat)

    def reconcile(self, draining=False, withdrawn=False, later_s=0):
        """A pass, and how the VIP is announced after it."""
        self.now += later_s
        this, nobody = frozenset(['lb']), frozenset()
        self.reconciler.reconcile(self.wanted(self.document)._replace(
            draining=this if draining else nobody,
            withdrawn=this if withdrawn else nobody), reconciling.BOTH)
        return self.announcement()

    def announcement(self):
        return {str(prefix): LAST_RESORT if '65535:0' in route.communities
                else USUAL for prefix, route
                in self.announce.wanted().items()}.get(reconciling.PREFIX)

    def tick(self, later_s):
        self.now += later_s
        self.reconciler.announce(reconciling.BOTH)
        return self.announcement()

    def test_udp_flows_are_sought_before_a_vip_is_announced(self):
        announced = []
        self.datapath.seek_udp = lambda seconds: announced.append(
            (seconds, self.announcement()))
        self.assertEqual(USUAL, self.reconcile())
        self.assertEqual([(SEEK_S, None)], announced)
        self.reconcile(later_s=10)
        self.assertEqual(1, len(announced))
        self.restart()
        self.reconcile()
        self.assertEqual(1, len(announced))

    def test_flows_are_sought_for_the_idle_timeout(self):
        self.document['flavor']['idle_timeout'] = 2000
        self.reconcile()
        self.assertEqual(2000 + seeking.MARGIN_S, self.datapath.seeks_s)

    def test_nothing_is_sought_for_tcp_or_tunneled_vips(self):
        self.protocol('TCP')
        self.reconcile()
        self.protocol('UDP')
        self.document['flavor'] = {}
        self.document['vip_address'] = '203.0.113.99'
        self.reconcile()
        self.assertEqual({nat_node.POOL, '203.0.113.99/32'},
                         self.announced())
        self.assertEqual(0, self.datapath.seeks_s)

    def test_node_drains_once_the_others_seek(self):
        self.reconcile()
        self.assertEqual(USUAL, self.reconcile(True))
        self.assertEqual(USUAL, self.tick(OTHERS_S - 1))
        self.assertEqual(LAST_RESORT, self.tick(1))
        # Later changes need no wait: the others have been seeking for long.
        self.assertIsNone(self.reconcile(True, True))
        self.assertEqual(LAST_RESORT, self.reconcile(True))
        self.assertEqual(USUAL, self.reconcile())
        self.assertEqual(USUAL, self.reconcile(True, later_s=100))

    def test_node_withdraws_once_the_others_seek(self):
        self.reconcile()
        self.assertEqual(USUAL, self.reconcile(True, True))
        self.assertIsNone(self.tick(OTHERS_S))

    def test_restarted_agent_waits_again(self):
        self.reconcile()
        self.reconcile(True)
        self.restart()
        self.assertEqual(USUAL, self.reconcile(True, later_s=OTHERS_S - 1))
        self.assertEqual(USUAL, self.tick(1))
        self.assertEqual(LAST_RESORT, self.tick(OTHERS_S - 1))

    def test_restarted_agent_keeps_the_drained_state(self):
        for draining, withdrawn, expected in (
                (True, False, LAST_RESORT), (True, True, None)):
            self.reconcile(draining, withdrawn)
            self.reconcile(draining, withdrawn, later_s=OTHERS_S)
            self.events.clear()
            self.restart()
            self.assertEqual(expected, self.reconcile(draining, withdrawn))
            self.assertEqual([], self.events)

    def test_vip_without_traffic_is_withdrawn_at_once(self):
        self.reconcile()
        self.reconcile(True)
        key = reconciling.KEY._replace(protocol='UDP')
        self.datapath.set_health(key, False)
        self.assertIsNone(self.tick(0))
        self.datapath.set_health(key, True)
        self.assertEqual(LAST_RESORT, self.tick(0))
        self.reconcile()
        self.reconcile(True, True)
        self.run_pass()  # It is deleted.
        self.assertEqual({nat_node.POOL}, self.announced())

    def test_node_without_udp_peers_drains_at_once(self):
        self.reconcile()
        self.datapath.peers = ['198.51.100.0']
        self.restart()
        self.assertEqual(LAST_RESORT, self.reconcile(True))
        self.datapath.peers = ['192.0.2.0', '198.51.100.0']
        for protocol, flavor in (('TCP', {'forwarding': 'nat'}),
                                 ('UDP', {})):
            self.protocol(protocol)
            self.document['flavor'] = flavor
            self.restart()
            self.assertEqual(USUAL, self.reconcile())
            self.assertEqual(LAST_RESORT, self.reconcile(True))
            self.assertIsNone(self.reconcile(True, True))
