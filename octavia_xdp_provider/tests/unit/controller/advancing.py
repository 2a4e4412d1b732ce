# SPDX-License-Identifier: Apache-2.0
"""Base of tests that advance a load balancer step by step."""

from unittest import mock
import uuid

from octavia_xdp_provider.controller import advance
from octavia_xdp_provider.controller import workers
from octavia_xdp_provider.controller.scheduler import service
from octavia_xdp_provider.tests.unit.controller import base as store_base

UP = {'lb': {'m1': 'up', 'm2': 'up'}}
ALL = ('lb', 'listener', 'pool', 'm1', 'm2', 'hm')


PATH = {('loadbalancer', 'lb'), ('listener', 'listener'), ('pool', 'pool')}


class AdvanceTestCase(store_base.StoreTestCase):
    """Nodes a and b are live; ``work`` does what is due."""

    def setUp(self):
        super().setUp()
        self.now = 1_000_000.0
        self.enterContext(
            mock.patch('time.time', side_effect=lambda: self.now))
        self.octavia = store_base.FakeOctavia()
        self.notified = set()
        self.restart()
        for host in ('a', 'b'):
            self.seen(host, {})
        self.set_conditions(a='live', b='live')

    def restart(self):
        """Replace the process; only the database is kept."""
        self.advance = advance.Advance(
            self.conf, self.store, self.octavia,
            service.Scheduler(self.conf, self.store), self.notified.update)

    def work(self, steps=20):
        """Process the items that are due now, and return their ids."""
        done = []
        for _ in range(steps):
            items = self.store.work.claim('test', 1, 60)
            if not items:
                return done
            again = self.advance.step(items[0], lambda: True)
            if again is not workers.FINISHED:
                self.store.work.finish(items[0], 'test', again)
            done.append(items[0].load_balancer_id)
        self.fail(f'it never ends: {done}')

    def request(self, change, seconds=30):
        request = str(uuid.uuid4())
        self.store.requests.add(change, request,
                                self.store.database.now() + seconds)
        return request

    def commit(self, pending=None, deleted=()):
        """End Octavia's transaction in which it made the request."""
        row = self.store.load_balancers.get('lb')
        document = row.pending['expected'] or row.document
        if deleted:
            document = self.octavia.documents['lb']
        self.octavia.commit(document, pending, deleted)

    def report(self, *hosts, error=None, members=UP, announced=True):
        for host in hosts or ('a', 'b'):
            self.seen(host, {})
            self.report_wanted(host, error, members, announced)

    def do(self, change, pending=None, deleted=()):
        """Make a change that Octavia commits and nodes apply."""
        self.request(change)
        self.commit(pending, deleted)
        self.work()
        self.report()
        self.work()

    def document(self):
        row = self.store.load_balancers.get('lb')
        return row and row.document

    def members(self):
        return set(self.document()['pools']['pool']['members'])

    def provisioning(self, key='lb'):
        return self.octavia.provisioning(key)
