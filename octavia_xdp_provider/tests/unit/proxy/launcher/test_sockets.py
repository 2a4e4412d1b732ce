# SPDX-License-Identifier: Apache-2.0
"""Listening sockets of load balancers, on loopback."""

import contextlib
import os
import socket
from unittest import mock

from octavia_xdp_provider.proxy.launcher import namespace
from octavia_xdp_provider.proxy.launcher import sockets
from octavia_xdp_provider.tests.unit import base

LB = 'load-balancer'


class TestSockets(base.TestCase):

    def setUp(self):
        super().setUp()
        traffic = mock.create_autospec(namespace.Namespace, instance=True)
        traffic.entered.side_effect = contextlib.nullcontext
        self.sockets = sockets.Sockets(traffic, mock.Mock())
        self.addCleanup(self.sockets.keep, LB, ())

    def test_closed_socket_is_opened_again_while_a_process_has_it(self):
        # A HAProxy that ends has what it inherited until its connections are
        # over.
        for address, family in (('127.0.0.1', socket.AF_INET),
                                ('::1', socket.AF_INET6)):
            with self.subTest(address):
                with socket.create_server((address, 0), family=family) as free:
                    point = address, free.getsockname()[1]
                self.sockets.open(LB, [point], listen=True)
                inherited = os.dup(self.sockets.descriptors(LB, [point])[0])
                self.addCleanup(os.close, inherited)
                client = socket.create_connection(point)
                self.addCleanup(client.close)
                self.sockets.keep(LB, ())
                with self.assertRaises(ConnectionRefusedError):
                    socket.create_connection(point)
                self.assertEqual({point}, self.sockets.open(
                    LB, [point], listen=True))
                socket.create_connection(point).close()
