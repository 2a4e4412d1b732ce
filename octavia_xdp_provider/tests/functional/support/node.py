# SPDX-License-Identifier: Apache-2.0
"""A node as the controllers see one: it fetches, and reports it has done it.
"""

import itertools
import threading

import oslo_messaging

from octavia_xdp_provider.contracts import rpc

# Seconds between two fetches where nobody wakes the node.
INTERVAL_S = 0.2


class Node:
    """Speaks protocol 2.0 in its own virtual host.

    Each report begins an epoch and reports all. ``documents``: by id, what the
    last fetch said that the node should have; ``draining``: ids of those that
    it shall announce as a last resort.
    """

    def __init__(self, test, conf, host):
        self._host = host
        self._epochs = itertools.count(1)
        self._stopping = threading.Event()
        self.notified = threading.Event()
        self.documents = {}
        self.draining = set()
        transport = rpc.transport(conf)
        test.addCleanup(transport.cleanup)
        # A call that comes before its server is lost; others are answered.
        self._asking = self._make_client(transport, 2)
        self._client = self._make_client(transport, 60)
        # Nodes' own patience: whoever had the call may have been killed.
        self._repeating = self._make_client(transport, 10)
        self._heartbeats = rpc.HeartbeatClient(transport)
        server = rpc.server(transport, rpc.NODE_TOPIC, host, [self._wakeup()])
        server.start()
        test.addCleanup(server.wait)
        test.addCleanup(server.stop)
        self._test = test

    @staticmethod
    def _make_client(transport, timeout):
        return rpc.NodesClient(transport, timeout=timeout)

    def _wakeup(self):
        notified = self.notified

        class Wakeup:
            target = oslo_messaging.Target(
                namespace=rpc.WAKEUP_NAMESPACE,
                version=rpc.VERSION)

            def changed(self, context, since=None, page=None):
                notified.set()
        return Wakeup()

    def is_served(self):
        """Whether some controller answers."""
        try:
            self._asking.compare(self._host)
        except rpc.TRANSPORT_ERRORS:
            return False
        return True

    def work(self):
        """Fetch everything, and report it as done. Returns the documents."""
        return self._work(self._client)

    def _work(self, client):
        entries, after = [], None
        first = None
        while True:
            answer = client.fetch(self._host, 0, after)
            first = first or answer
            entries += answer['changed']
            after = answer['more']
            if after is None:
                break
        report = {
            'as_of': first['as_of'], 'complete': True, 'gone': [],
            'counters': {}, 'state': {},
            'held': {entry['id']: {
                'generation': entry['generation'], 'error': None,
                'members': {}, 'announced': True} for entry in entries}}
        # Before others can know of it.
        self.documents = {entry['id']: entry['document']
                          for entry in entries}
        self.draining = {entry['id'] for entry in entries
                         if entry.get('draining')}
        while True:
            answer = client.report(
                self._host, next(self._epochs), 1, report)
            if answer['taken']:
                return self.documents
            self._epochs = itertools.count(answer['epoch'] + 1)

    def start(self):
        """Work from now on, whatever the controllers do."""
        thread = threading.Thread(target=self._run)
        thread.start()
        self._test.addCleanup(thread.join)
        self._test.addCleanup(self._stopping.set)
        self._test.addCleanup(self.notified.set)

    def _run(self):
        while not self._stopping.is_set():
            try:
                self._heartbeats.heartbeat(self._host)
                self._work(self._repeating)
            except rpc.TRANSPORT_ERRORS:
                pass  # The controller that had the call was ended.
            self.notified.wait(INTERVAL_S)
            self.notified.clear()
