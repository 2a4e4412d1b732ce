# SPDX-License-Identifier: Apache-2.0
"""A store on SQLite, and a stand-in for Octavia."""

import copy
import functools
import itertools
import pathlib
import tempfile
import threading
from unittest import mock

import fixtures
from oslo_db.sqlalchemy import enginefacade
import sqlalchemy as sa

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller import comparison
from octavia_xdp_provider.controller import status_message
from octavia_xdp_provider.controller.octavia import api
from octavia_xdp_provider.controller.octavia import errors
from octavia_xdp_provider.controller.store import base as store_base
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import schema
from octavia_xdp_provider.tests.unit import base

_KINDS = {plural: kind for kind, plural in status_message.PLURALS.items()}
# In the order in which octavia-driver-agent sets statuses.
_ORDER = ('members', 'healthmonitors', 'pools', 'l7rules', 'l7policies',
          'listeners', 'loadbalancers')


@functools.cache
def _template():
    """A database file with the newest tables: migrations take a while."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, 'template.sqlite')
        manager = enginefacade.transaction_context()
        manager.configure(connection=f'sqlite:///{path}')
        schema.upgrade(manager)
        manager.writer.get_engine().dispose()
        return path.read_bytes()


def _make_tables(path):
    pathlib.Path(path).write_bytes(_template())


def _keep_connections(manager):
    """Pool connections, as on database servers. On SQLite oslo.db opens one
    for each transaction, which takes a third of most tests' time."""
    with mock.patch.object(sa.pool, 'NullPool', sa.pool.QueuePool):
        manager.writer.get_engine()


class StoreTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.renew()

    def renew(self):
        """An empty store."""
        # Each of the reports below begins one.
        self._epochs = itertools.count(1)
        self.conf = self.load('[database]\nsqlite_synchronous = false\n'
                              f'connection = {self.database()}\n')
        manager = schema.context_manager(self.conf)
        self.addCleanup(manager.writer.get_engine().dispose)
        path = sa.make_url(self.conf.database.connection).database
        if self.conf.database.connection.startswith('sqlite:'):
            _make_tables(path)
            _keep_connections(manager)
        else:
            schema.upgrade(manager)
        self.store = queries.Store(manager)

    def hold_time(self):
        """Replace the database's time by self.now, which only tests move."""
        self.now = 1_000_000.0
        self.enterContext(mock.patch.object(
            store_base, 'now', lambda session: self.now))

    def set_conditions(self, **conditions):
        """Store conditions as the leader does: host → condition."""
        token = self.store.leases.acquire('duty', 'test', 60)
        self.store.nodes.set_conditions(conditions, 'duty', token)

    def seen(self, host, state):
        """Let a registered node report."""
        self.store.nodes.register(host)
        return self._take(host, state=state).is_new

    def generations(self, host):
        """Return the generations that a node should have, by id."""
        return self.store.deltas.generations(host)['generations']

    def report_held(self, host, as_of, generations, error=None, members=(),
                    announced=True):
        """A node reports all that it has.

        :returns: ids of load balancers of which something has changed.
        """
        members = dict(members)
        return self._take(host, as_of=as_of, complete=True, held={
            key: {'generation': generation, 'error': error,
                  'members': members.get(key, {}), 'announced': announced}
            for key, generation in generations.items()}).touched

    def report_wanted(self, host, error=None, members=(), announced=True):
        """A node reports that it has looked at all that it should have."""
        expected = self.store.deltas.generations(host)
        return self.report_held(
            host, expected['as_of'], expected['generations'], error, members,
            announced)

    def count(self, host, counters):
        """A node that is registered reports counters and nothing else."""
        self.store.nodes.register(host)
        self._take(host, counters=counters)

    def _take(self, host, **more):
        return self.store.reports.take(host, next(self._epochs), 1, {
            'as_of': 0, 'complete': False, 'held': {}, 'gone': [],
            'counters': {}, 'state': None, **more})

    def database(self):
        """Return the URL of an empty database."""
        directory = self.useFixture(fixtures.TempDir()).path
        return f'sqlite:///{directory}/db.sqlite'


class FakeOctavia:
    """Holds what Octavia has committed, and the statuses that were set.

    As the real one, it sets a status of a row that does not exist without
    an error, refuses DELETED of such a row and any status of such a policy or
    rule, and drops rows that are DELETED.
    """

    def __init__(self):
        self.documents = {}
        self.trees = {}  # id → {(kind, id): provisioning status}
        self.updated_at = {}
        self.statuses = {}
        self.messages = []
        self.statistics = {}
        self.available = True
        self._lock = threading.RLock()

    def commit(self, document, pending=None, deleted=()):
        """End a transaction of the API.

        :param document: with what is to be deleted.
        :param pending: objects that become PENDING; None: all.
        :param deleted: objects that become PENDING_DELETE.
        """
        key = document['id']
        with self._lock:
            self.documents[key] = copy.deepcopy(document)
            objects = spec.objects(document)
            tree = {item: status for item, status
                    in self.trees.get(key, {}).items() if item in objects}
            for item in objects:
                tree.setdefault(item, 'PENDING_CREATE')
            for item in objects if pending is None else pending:
                tree[item] = ('PENDING_UPDATE' if tree[item] == 'ACTIVE'
                             else tree[item])
            tree['loadbalancer', key] = ('PENDING_UPDATE' if tree[
                'loadbalancer', key] == 'ACTIVE' else tree[
                    'loadbalancer', key])
            for item in deleted:
                tree[item] = 'PENDING_DELETE'
            self.trees[key] = tree
            self._touch(key)

    def _touch(self, key):
        self.updated_at[key] = str(int(self.updated_at.get(key, 0)) + 1)

    def lose(self, key):
        """Remove the load balancer from the database."""
        with self._lock:
            self.documents.pop(key, None)
            self.trees.pop(key, None)

    def document(self, load_balancer_id):
        self._check()
        return copy.deepcopy(self.documents.get(load_balancer_id))

    def tree(self, load_balancer_id):
        self._check()
        tree = self.trees.get(load_balancer_id)
        return None if tree is None else dict(tree)

    def listed(self):
        self._check()
        for key, tree in sorted(self.trees.items()):
            yield api.Listed(key, tree['loadbalancer', key],
                             self.operating(key) or 'OFFLINE',
                             self.updated_at.get(key))

    def provisioning_status(self, load_balancer_id):
        tree = self.tree(load_balancer_id)
        return tree and tree['loadbalancer', load_balancer_id]

    def stop(self):
        """The process ends."""

    def set_statuses(self, message):
        self._check()
        with self._lock:
            self.messages.append(message)
            for plural in sorted(message, key=_ORDER.index):
                for entry in message[plural]:
                    self._set(_KINDS[plural], dict(entry))

    def _set(self, kind, entry):
        key = entry.pop('id')
        status = entry.get('provisioning_status')
        owner = next((owner for owner, tree in self.trees.items()
                      if (kind, key) in tree), None)
        if owner is None and (status == 'DELETED'
                              or kind in ('l7policy', 'l7rule')):
            raise errors.Rejected(f'there is no {kind} {key}')
        if status == 'DELETED':
            if kind == 'loadbalancer':
                self.lose(key)
            else:
                del self.trees[owner][kind, key]
                self.documents[owner] = comparison.without(
                    self.documents[owner], {(kind, key)})
        elif owner is not None and status:
            self.trees[owner][kind, key] = status
        if owner is not None:
            self._touch(owner)
        self.statuses.setdefault(key, {}).update(entry)

    def set_statistics(self, listeners):
        self._check()
        self.statistics.update(
            {record['id']: record for record in listeners})

    def _check(self):
        if not self.available:
            raise errors.OctaviaUnavailable('not there')

    def provisioning(self, key):
        return self.statuses.get(key, {}).get('provisioning_status')

    def operating(self, key):
        return self.statuses.get(key, {}).get('operating_status')

    def sent_since(self, since=0):
        """Return (kind, id) → statuses of the messages since a given one."""
        statuses = {}
        for message in self.messages[since:]:
            for plural, entries in message.items():
                for entry in entries:
                    statuses.setdefault((_KINDS[plural], entry['id']),
                                        {}).update(entry)
        return statuses
