# SPDX-License-Identifier: Apache-2.0
"""Flows of ports that leave a hypervisor, and of those that come to it."""

import errno
from unittest import mock

import oslo_messaging

from octavia_xdp_provider.contracts import host_messages
from octavia_xdp_provider.host import moved_flows
from octavia_xdp_provider.host import types
from octavia_xdp_provider.host.library import HostError
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.host import fakes

CLIENT = '198.51.100.7'


def flow(key, port, idle=0, closing=False):
    return types.Flow(CLIENT, port, key, fakes.PORT, idle, True, closing,
                      False, False)


def message(key, port, closing=False):
    return {'key': key, 'client': CLIENT, 'port': port, 'closing': closing}


class Datapath:

    def __init__(self, *flows):
        self.flows, self.added, self.reads = flows, [], 0

    def port_flows(self, port_id):
        self.reads += 1
        return [flow for flow in self.flows if flow.port_id == port_id]

    def entries(self):
        return [mock.Mock(entry=mock.Mock(key=key, port_id=port_id))
                for key, port_id in ((1, fakes.PORT), (2, fakes.PORT),
                                     (3, fakes.OTHER))]

    def add_flows(self, flows):
        self.added += flows
        return len(flows)


class TestLeaving(base.TestCase):

    def setUp(self):
        super().setUp()
        self.controller = mock.Mock()
        self.controller.flows.return_value = True

    def leaving(self, *flows):
        self.now, self.datapath = 0.0, Datapath(*flows)
        leaving = moved_flows.Leaving(self.datapath, lambda: self.now)
        leaving.look({fakes.PORT})
        return leaving

    def sent(self):
        return [flow for call in self.controller.flows.call_args_list
                for flow in call.args[2]]

    def test_flows_are_sent_once(self):
        leaving = self.leaving(flow(1, 1000), flow(2, 1001, closing=True))
        self.assertTrue(leaving.is_waiting)
        leaving.send(self.controller, 'hv1')
        self.controller.flows.assert_called_once_with('hv1', fakes.PORT, [
            message(1, 1000), message(2, 1001, True)])
        self.assertFalse(leaving.is_waiting)
        leaving.look({fakes.PORT})
        leaving.send(self.controller, 'hv1')
        self.assertEqual(1, self.controller.flows.call_count)
        self.assertEqual(1, self.datapath.reads)

    def test_flows_wait_for_a_hypervisor_with_the_port(self):
        leaving = self.leaving(flow(1, 1000))
        self.controller.flows.return_value = False
        leaving.send(self.controller, 'hv1')
        self.assertTrue(leaving.is_waiting)
        self.controller.flows.return_value = True
        leaving.send(self.controller, 'hv1')
        self.assertFalse(leaving.is_waiting)

    def test_returning_tap_ends_the_hand_over(self):
        leaving = self.leaving(flow(1, 1000))
        leaving.look(set())
        self.assertFalse(leaving.is_waiting)
        leaving.look({fakes.PORT})
        self.assertTrue(leaving.is_waiting)

    def test_port_that_no_other_hypervisor_has_is_given_up(self):
        leaving = self.leaving(flow(1, 1000))
        for self.now, waits in ((moved_flows.PATIENCE_S - 1, True),
                                (moved_flows.PATIENCE_S, False),
                                (2 * moved_flows.PATIENCE_S, False)):
            leaving.look({fakes.PORT})
            self.assertEqual(waits, leaving.is_waiting)
        self.assertEqual(1, self.datapath.reads)

    def test_controller_that_does_not_answer_is_asked_again(self):
        leaving = self.leaving(flow(1, 1000))
        self.controller.flows.side_effect = oslo_messaging.MessagingTimeout()
        self.assertRaises(oslo_messaging.MessagingTimeout, leaving.send,
                          self.controller, 'hv1')
        self.assertTrue(leaving.is_waiting)

    def test_messages_and_all_of_them_are_bounded(self):
        leaving = self.leaving(*(
            flow(1, 1 + number, idle=20000 - number)
            for number in range(20000)))
        leaving.send(self.controller, 'hv1')
        sent = self.sent()
        self.assertEqual(host_messages.FLOWS_MAX, len(sent))
        # the ones that were used last
        self.assertEqual(20000, sent[0]['port'])
        self.assertEqual(host_messages.FLOWS_PAGE, max(
            len(call.args[2])
            for call in self.controller.flows.call_args_list))


class TestArriving(base.TestCase):

    def setUp(self):
        super().setUp()
        self.datapath, self.woken = Datapath(), []
        self.discarded = []
        self.arriving = moved_flows.Arriving(
            self.datapath, lambda: self.woken.append(True),
            self.discarded.append)

    def test_flows_of_the_ports_own_keys_are_taken(self):
        self.arriving.put(fakes.PORT, [
            message(1, 1000), message(3, 1001), message(4, 1002),
            message(2, 1003, True)])
        self.assertEqual([True], self.woken)
        self.assertEqual([], self.datapath.added)
        self.arriving.take()
        self.arriving.take()
        self.assertEqual([
            types.KnownFlow(1, CLIENT, 1000),
            types.KnownFlow(2, CLIENT, 1003, True)], self.datapath.added)

    def test_failures_and_surplus_flows_stop_nothing(self):
        for _ in range(100):
            self.arriving.put(fakes.PORT, [message(1, 1000),
                                           message(2, 1000)])
        self.assertEqual(36 * [2], self.discarded)
        with mock.patch.object(self.datapath, 'add_flows',
                               side_effect=HostError(errno.EIO, 'no')):
            self.arriving.take()
        self.arriving.put(fakes.PORT, [message(1, 1001)])
        self.arriving.take()
        self.assertEqual([types.KnownFlow(1, CLIENT, 1001)],
                         self.datapath.added)
