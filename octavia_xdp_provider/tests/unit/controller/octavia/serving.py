# SPDX-License-Identifier: Apache-2.0
"""Runs servers for tests, each in a thread that ends with its test."""

import threading


def start(fixture, server):
    """Serve until the fixture is cleaned up.

    :param server: a threaded socketserver; its threads are not joined.
    """
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, args=(0.01,),
                              daemon=True)
    thread.start()
    fixture.addCleanup(thread.join)
    fixture.addCleanup(server.server_close)
    fixture.addCleanup(server.shutdown)
