# SPDX-License-Identifier: Apache-2.0
"""A node without state among others that forward connections: needs root.

The agents' reconcilers over datapaths of their own, and a controller's
interface for nodes with its database; packets are those of connections that
began before a member was added.
"""

import ipaddress
import json
import os
import socket
import types

from scapy.layers import inet
from scapy.layers import l2

from octavia_xdp_provider.agent import history
from octavia_xdp_provider.agent import plans
from octavia_xdp_provider.agent import reconcile
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.process.agents import reports
from octavia_xdp_provider.tests.functional.support import private_node
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import reporting

NETWORK = ipaddress.ip_network('203.0.113.0/24')
KEY = datapath.Key(base.VIP, 'TCP', 80)
ADDED = '198.18.10.13'
# Ports of connections that began before the member was added, and of those
# that began after that.
EARLIER, LATER = range(20000, 20200), range(30000, 30200)
SYN, ACK = 'S', 'A'
DESTINATION = slice(30, 34)  # of a frame's outer header
# Behind Ethernet, IPv4 and UDP: the packet itself (variant 1 of GUE), or a
# header of variant 0 with the other member's address behind GitHub's private
# data (doc/source/contributor/forwarding.rst).
GUE, ALTERNATIVE = 42, slice(50, 54)


def frame(port, flags):
    return bytes(l2.Ether(dst=private_node.OWN_MAC,
                          src=private_node.NEXT_HOP_MAC) /
                 inet.IP(src='198.51.100.7', dst=base.VIP) /
                 inet.TCP(sport=port, dport=80, flags=flags))


class Node:
    """An agent that makes passes, and its tables."""

    def __init__(self, case, host):
        self.host = host
        self.without = []
        self.datapath = case.open(
            pin_directory=os.path.join(case.bpffs, host),
            lock_file=f'{case.lock}-{host}', slots_max=0)
        self.datapath.set_uplinks([datapath.Uplink(
            socket.if_nametoindex('lo'), 1500, private_node.OWN_MAC,
            private_node.NEXT_HOP_MAC)])
        self.datapath.set_node(datapath.NodeSettings(private_node.NODE))
        self._directory = os.path.join(os.path.dirname(case.lock), host)
        os.mkdir(self._directory)
        self._reporter = reports.Reporter(1)
        self.make_reconciler(case)

    def make_reconciler(self, case):
        directory = self._directory
        self.reconciler = reconcile.Reconciler(
            case.conf, types.SimpleNamespace(
                checks=f'{directory}/checks',
                handler_wakeup=f'{directory}/handler.wakeup'),
            self.datapath, announcements.Announcements(directory, [NETWORK]),
            plans.Inputs(
                lambda: address_policy.AddressPolicy((NETWORK,), ())),
            without_history=lambda: self.without.append(1))

    def make(self, document):
        result = self.reconciler.reconcile(
            reconcile.Wanted(7, {'lb': (5, document)}), frozenset((4, 6)))
        assert not result.failed, result.failed

    def report(self, api):
        self._reporter.send(
            types.SimpleNamespace(report=lambda *arguments: api.report(
                {}, *arguments)), self.host,
            reports.Facts(7, self.reconciler.held))

    def ask(self, api):
        history.Asker(
            types.SimpleNamespace(history=lambda *arguments: api.history(
                {}, *arguments)), self.host, self.reconciler.history.given,
            lambda: True, lambda: self.without.append(1)).request()

    def send(self, flags, ports=EARLIER):
        """Port → members that its packet may end at, the first first."""
        targets = {}
        for port, (action, out) in zip(ports, self.datapath.run(
                [(frame(port, flags), 0) for port in ports]), strict=True):
            assert action == private_node.XDP_TX, action
            targets[port] = [socket.inet_ntoa(out[DESTINATION])]
            if out[23] == socket.IPPROTO_UDP and not out[GUE] >> 4:
                targets[port].append(socket.inet_ntoa(out[ALTERNATIVE]))
        return targets


class TestNodeThatBoots(private_node.PrivateState, reporting.NodeApiTestCase):

    def setUp(self):
        super().setUp()
        for host in ('c', 'boots'):
            self.store.nodes.register(host)
            self.store.placements.place('lb', add=[host])

    def document(self, added, **flavor):
        tree = base.tree(flavor=flavor)
        pool = tree['pools']['pool']
        pool['healthmonitor'] = None
        if added:
            pool['members']['m3'] = base.member(ADDED)
        return spec.document('lb', tree)

    def live(self, added, ports, **flavor):
        """Where connections are, and the nodes that have them, to which a
        member was added then, or from which it was removed."""
        nodes = [Node(self, host) for host in ('a', 'c')]
        for node in nodes:
            node.make(self.document(not added, **flavor))
            node.report(self.api)
            began = node.send(SYN, ports)
        with self.store.database.write() as session:
            session.get(models.LoadBalancer, 'lb').document = json.dumps(
                self.document(added, **flavor))
        for node in nodes:
            node.make(self.document(added, **flavor))
            node.report(self.api)
            self.later = node.send(SYN, LATER)
        return began

    def broken(self, began, node):
        """Connections that their member does not get a packet of."""
        return [port for port, targets in node.send(ACK, began.keys()).items()
                if began[port][0] not in targets]

    def boot(self, asks, added=True, ports=EARLIER, **flavor):
        began = self.live(added, ports, **flavor)
        node = Node(self, 'boots')
        if asks:
            node.ask(self.api)
        node.make(self.document(added, **flavor))
        return began, node

    def test_connections_go_on_by_a_second_chance(self):
        began, node = self.boot(True, encapsulation='gue', second_chance=True)
        self.assertEqual([], self.broken(began, node))
        # Other nodes alone remember which of these are with the new one.
        self.assertIn([ADDED], self.later.values())
        self.assertEqual([], self.broken(self.later, node))
        self.assertEqual([], node.without)
        self.assertEqual([], node.datapath.faults())
        # It passes on the history that it was given.
        changes, = node.reconciler.held['lb']['history'].values()
        self.assertEqual([{'m3': 0}],
                         [change['members'] for change in changes])

    def test_those_from_before_the_change_go_on_by_their_slots(self):
        began, node = self.boot(True)
        self.assertEqual([], self.broken(began, node))

    def broken_by_removal(self, asks):
        """Connections of the members that stay."""
        began, node = self.boot(asks, False, range(20000, 22000))
        staying = {port: targets for port, targets in began.items()
                   if targets != [ADDED]}
        self.assertLess(len(staying), len(began))
        return self.broken(staying, node)

    def test_removed_member_breaks_no_connection_of_others(self):
        self.assertEqual([], self.broken_by_removal(True))

    def test_removed_member_breaks_some_without_it(self):
        self.assertLess(0, len(self.broken_by_removal(False)))

    def test_without_it_some_break(self):
        began, node = self.boot(False, encapsulation='gue',
                                second_chance=True)
        self.assertLess(0, len(self.broken(began, node)))

    def test_an_answer_that_is_late_changes_nothing(self):
        began, node = self.boot(False)
        broken = self.broken(began, node)
        generation = node.datapath.service(KEY).generation
        node.ask(self.api)
        node.make(self.document(True))
        self.assertEqual(broken, self.broken(began, node))
        self.assertEqual(generation, node.datapath.service(KEY).generation)
        self.assertEqual([1], node.without)

    def test_an_agent_killed_before_the_first_packet_begins_anew(self):
        began, node = self.boot(False)
        # The next one finds tables without a past.
        node.make_reconciler(self)
        node.ask(self.api)
        node.make(self.document(True))
        self.assertEqual([], self.broken(began, node))
