# SPDX-License-Identifier: Apache-2.0
"""Several writers at once, and marks of work."""

import subprocess
import sys
import threading
import time

import sqlalchemy as sa

from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import marks
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.controller import base as store_base

# Reads and writes in one transaction, many times.
WRITER = '''
from octavia_xdp_provider.config import options
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import schema
import sys
store = queries.Store(schema.context_manager(
    options.load(config_files=[sys.argv[1]])))
for _ in range(int(sys.argv[3])):
    store.load_balancers.change('lb', lambda document: dict(
        document, name=document['name'] + sys.argv[2]))
'''


class Writers(store_base.StoreTestCase):

    def test_writers_of_several_processes_wait_for_each_other(self):
        self.store.load_balancers.create(unit.document(name=''))
        file = self.conf.default_config_files[0]
        writers = [subprocess.Popen(
            [sys.executable, '-c', WRITER, file, name, '25'],
            stderr=subprocess.PIPE) for name in 'ab']
        for _ in range(25):
            self.store.load_balancers.change('lb', lambda document: dict(
                document, name=document['name'] + 'c'))
        for writer in writers:
            _out, error = writer.communicate(timeout=120)
            self.assertEqual(0, writer.returncode, error.decode())
        name = self.store.load_balancers.get('lb').document['name']
        self.assertEqual('a' * 25 + 'b' * 25 + 'c' * 25,
                         ''.join(sorted(name)))

    def test_reader_sees_one_state_while_others_write(self):
        self.store.load_balancers.create(unit.document())
        with self.store.database.read() as session:
            before = session.get(models.Sequence, 1).value
            thread = threading.Thread(
                target=lambda: self.store.load_balancers.change(
                    'lb', lambda document: document))
            thread.start()
            thread.join(20)
            self.assertFalse(thread.is_alive(), 'the writer waits')
            self.assertEqual(before, session.execute(sa.select(
                models.Sequence.value)).scalar_one())


class Marks(store_base.StoreTestCase):

    def work(self):
        """Id → (version, seconds until it is due)."""
        with self.store.database.read() as session:
            now = base.now(session)
            return {row.load_balancer_id: (row.version, row.due_at - now)
                    for row in session.query(models.Work)}

    def mark(self, ids, delay_s=0.0):
        with self.store.database.write() as session:
            marks.mark(session, ids, delay_s)

    def test_item_is_due_at_its_earliest_time(self):
        self.mark(['a', 'b'], 100)
        self.mark(['b', 'c'], 10)
        self.mark(['a'], 1000)
        work = self.work()
        self.assertEqual({'a': 2, 'b': 2, 'c': 1},
                         {key: version for key, (version, _) in work.items()})
        for key, least, most in (('a', 50, 100), ('b', 0, 10), ('c', 0, 10)):
            self.assertTrue(least < work[key][1] <= most, work)

    def test_ids_are_split_into_several_statements(self):
        ids = [f'lb{number}' for number in range(2 * base.CHUNK + 1)]
        self.mark(ids)
        self.assertEqual(set(ids), set(self.work()))
        self.mark([])

    def test_selected_load_balancers_are_marked(self):
        for host in ('a', 'b'):
            self.store.placements.place('lb', [host])
        self.store.placements.place('other', ['b'])
        self.mark(['lb'], 100)
        with self.store.database.write() as session:
            marks.mark_selected(session, sa.select(
                models.Placement.load_balancer_id).where(
                    models.Placement.host == 'b'))
        work = self.work()
        self.assertEqual({'lb': 2, 'other': 1},
                         {key: version for key, (version, _) in work.items()})
        self.assertLessEqual(work['lb'][1], 0)

    def test_mark_is_rolled_back_with_its_transaction(self):
        def fail():
            with self.store.database.write() as session:
                marks.mark(session, ['a'])
                raise ZeroDivisionError
        self.assertRaises(ZeroDivisionError, fail)
        self.assertEqual({}, self.work())

    def test_time_comes_from_the_database(self):
        with self.store.database.read() as session:
            self.assertLess(abs(base.now(session) - time.time()), 60)
