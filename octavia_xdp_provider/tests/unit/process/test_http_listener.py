# SPDX-License-Identifier: Apache-2.0
"""How many may ask for metrics at a time."""

import socket

import prometheus_client

from octavia_xdp_provider.process import http_listener
from octavia_xdp_provider.tests.unit import base

_REQUEST = b'GET /metrics HTTP/1.0\r\n\r\n'


class TestConnections(base.TestCase):

    def setUp(self):
        super().setUp()
        self.refused = []
        self.listener = http_listener.Listener(
            ('127.0.0.1', 0), http_listener.application(
                prometheus_client.CollectorRegistry()),
            lambda: self.refused.append(1))
        self.listener.start()
        self.addCleanup(self.listener.stop)

    def connect(self):
        connection = socket.create_connection(
            ('127.0.0.1', self.listener.port), timeout=20)
        self.addCleanup(connection.close)
        return connection

    def test_connections_beyond_the_limit_are_closed(self):
        served = [self.connect()
                  for _ in range(http_listener.CONNECTIONS_MAX)]
        self.assertEqual([], self.refused)
        self.assertEqual(b'', self.connect().recv(1))
        self.assertEqual([1], self.refused)
        for connection in served:
            connection.sendall(_REQUEST)
            with connection.makefile('rb') as answer:
                self.assertIn(b'200', answer.readline())
