# SPDX-License-Identifier: Apache-2.0
"""How much a change asks of the database: no more where there is more.

Statements are counted, not seconds. Each costs the controller a quarter of a
millisecond of CPU, and each transaction half of one.
"""

import uuid

import fixtures
import sqlalchemy as sa

from octavia_xdp_provider.controller import advance
from octavia_xdp_provider.controller import driver_api
from octavia_xdp_provider.controller import node_api
from octavia_xdp_provider.controller import pages
from octavia_xdp_provider.controller import workers
from octavia_xdp_provider.controller.scheduler import service
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import base as store_base

HOSTS = ('a', 'b')
# See store/sqlite.py.
_OF_SQLITE = ('COMMIT', 'BEGIN IMMEDIATE')

# After those by which the nodes are made known.
EPOCH = 1000


class Counter:
    """Statements and transactions of a database."""

    def __init__(self, store):
        self.statements = []
        self.transactions = 0
        engine = store.database._writer
        assert store.database._reader is engine
        sa.event.listen(engine, 'before_cursor_execute', self._execute)
        sa.event.listen(engine, 'begin', self._begin)

    def _execute(self, connection, cursor, statement, parameters, context,
                 executemany):
        if statement not in _OF_SQLITE:
            self.statements.append(statement)

    def _begin(self, connection):
        self.transactions += 1

    def clear(self):
        self.statements.clear()
        self.transactions = 0


class TestWork(store_base.StoreTestCase):
    """One controller, two nodes, Octavia: without threads and messages."""

    def setUp(self):
        super().setUp()
        # Periodic or random work must not affect the counts.
        self.hold_time()
        for name, value in (('pool.ASKED_S', float('inf')),
                            ('requests.FORGET_SHARE', 0)):
            self.useFixture(fixtures.MonkeyPatch(
                f'octavia_xdp_provider.controller.store.{name}', value))
        self.octavia = store_base.FakeOctavia()
        self.named = set()
        self.epochs = {}
        self.begin()

    def begin(self):
        """Count statements once the database is set up."""
        self.count = Counter(self.store)
        self.advance = advance.Advance(
            self.conf, self.store, self.octavia,
            service.Scheduler(self.conf, self.store), lambda hosts: None)
        self.driver = driver_api.DriverEndpoint(
            self.store, lambda reports_end: None, self.named.update,
            lambda change: self.named.add(change.load_balancer_id))
        self.pages = pages.Pages(self.store.deltas.changes)
        self.nodes = node_api.NodesEndpoint(
            self.store, lambda host, ids, held: self.named.update(ids),
            lambda: None, self.pages.fetched)
        for host in HOSTS:
            self.seen(host, {})
        self.set_conditions(**dict.fromkeys(HOSTS, 'live'))
        self.as_of = dict.fromkeys(HOSTS, 0)
        self.numbers = dict.fromkeys(HOSTS, 0)

    def change(self, change, document):
        """Do the part of octavia-api and the driver."""
        request = str(uuid.uuid4())
        self.driver.change(None, change, request,
                           self.store.database.now() + 30, True)
        committed = document()
        self.octavia.commit(committed, {('loadbalancer', committed['id'])})
        self.driver.ended(None, request, True)

    def work(self):
        """Make one step for the items that were woken."""
        ids, stepped = set(self.named), []
        self.named.clear()
        for item in self.store.work.claim('test', 8, 60, ids):
            stepped.append(item.load_balancer_id)
            again = self.advance.step(item, lambda: True)
            if again is not workers.FINISHED:
                self.store.work.finish(item, 'test', again)
        return stepped

    def turn(self, host):
        """Let nodes fetch, and report the results."""
        self.report(host, self.nodes.fetch(None, host, self.as_of[host]))

    def notify(self, host):
        """The same with what comes with a notification."""
        since, page = self.pages.next(host)
        self.assertEqual(self.as_of[host], since)
        self.report(host, page)

    def report(self, host, page):
        self.as_of[host] = page['as_of']
        self.numbers[host] += 1
        self.nodes.report(None, host, EPOCH, self.numbers[host], {
            'as_of': page['as_of'], 'complete': True, 'gone': [],
            'counters': {}, 'state': None, 'held': {
                entry['id']: {'generation': entry['generation'], 'error': None,
                              'announced': True, 'members': dict.fromkeys(
                                members(entry['document']), 'up')}
                for entry in page['changed']}})

    def create(self, number):
        key = f'lb{number}'
        self.change({'object': 'loadbalancer', 'action': 'create',
                     'object_id': key, 'load_balancer_id': key,
                     'fields': base.numbered_tree(number)},
                    lambda: self.pending(key))
        self.finish()

    def pending(self, key):
        row = self.store.load_balancers.get(key)
        return row.pending['expected']

    def finish(self):
        """Run until no work is left."""
        while self.work():
            for host in HOSTS:
                self.turn(host)

    def update(self, number, weight):
        self.change({'object': 'member', 'action': 'update',
                     'object_id': 'm1', 'pool_id': f'pool{number}',
                     'fields': {'weight': weight}},
                    lambda: self.pending(f'lb{number}'))
        self.named.clear()  # its nodes are notified, and report
        for host in HOSTS:
            self.notify(host)
        self.work()

    def cost(self, number):
        """Return (statements, transactions) of a change until ACTIVE."""
        self.update(number, 7)
        self.count.clear()
        self.update(number, 9)
        cost = len(self.count.statements), self.count.transactions
        row = self.store.load_balancers.get(f'lb{number}')
        self.assertEqual((), row.unconfirmed)
        self.assertEqual(set(), self.store.work.marked([row.id]))
        self.assertEqual('ACTIVE', self.octavia.trees[row.id][
            'loadbalancer', row.id])
        return cost

    def test_cost_of_a_change_is_independent_of_size(self):
        for number in range(1, 4):
            self.create(number)
        few = self.cost(2)
        for number in range(4, 24):
            self.create(number)
        self.assertEqual(few, self.cost(2))
        statements, transactions = few
        self.assertLessEqual(transactions, MOST_TRANSACTIONS)
        self.assertLessEqual(statements, MOST_STATEMENTS,
                             '\n'.join(self.count.statements))

    def test_node_without_news_costs_two_transactions(self):
        self.create(1)
        self.turn('a')
        self.count.clear()
        self.turn('a')
        self.assertEqual(2, self.count.transactions)
        self.assertLessEqual(len(self.count.statements), 6)


# A change of a member's weight is stored and promoted; sent to and reported by
# two nodes; claimed, looked at, sent, noted and finished. One transaction is
# the test's own.
MOST_TRANSACTIONS = 10
MOST_STATEMENTS = 42


def members(document):
    return [key for pool in document['pools'].values()
            for key in pool['members']]
