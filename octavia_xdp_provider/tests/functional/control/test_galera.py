# SPDX-License-Identifier: Apache-2.0
"""Two controllers' stores on two servers of a Galera cluster.

Neither sees the locks of the other: of two transactions that meet, the second
fails when it commits.
"""

import collections
import itertools
import logging
import tempfile
import threading
import uuid

import fixtures

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import requests
from octavia_xdp_provider.controller.store import schema
from octavia_xdp_provider.tests.functional.support import galera
from octavia_xdp_provider.tests.support import form
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import requesting

ROUNDS = 10


def document(key, address):
    return spec.document(key, base.tree(
        name='', vip_address=address, listeners={}, pools={}))


@form.in_long_form
class TestGalera(base.TestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        directory = tempfile.TemporaryDirectory(prefix='oxp-galera-')
        cls.addClassCleanup(directory.cleanup)
        cls.cluster = galera.Cluster(directory.name)
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()

    def setUp(self):
        super().setUp()
        managers = [schema.context_manager(self.load(
            # A commit on one server is visible on the other one, also to a
            # transaction that begins with a change.
            f'[database]\nconnection = {url}\nmysql_wsrep_sync_wait = 7\n'))
            for url in self.cluster.urls]
        for manager in managers:
            self.addCleanup(manager.writer.get_engine().dispose)
        schema.upgrade(managers[0])
        self.stores = [queries.Store(manager) for manager in managers]

    def test_who_does_not_wait_is_told(self):
        for wait in (7, 3, 0):
            manager = schema.context_manager(self.load(
                f'[database]\nconnection = {self.cluster.urls[0]}\n'
                f'mysql_wsrep_sync_wait = {wait}\n'))
            self.addCleanup(manager.writer.get_engine().dispose)
            with self.subTest(wait=wait), fixtures.FakeLogger(
                    level=logging.WARNING) as log:
                schema.check(manager)
                self.assertEqual(
                    wait != 7, 'mysql_wsrep_sync_wait = 7' in log.output)

    def at_once(self, function, *arguments):
        """Call a function with each store and its argument; the results."""
        results = {}
        barrier = threading.Barrier(len(self.stores))

        def call(number, store):
            barrier.wait()
            try:
                results[number] = function(store, *(
                    values[number] for values in arguments))
            except Exception as error:
                results[number] = error
        threads = [threading.Thread(target=call, args=pair)
                   for pair in enumerate(self.stores)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [results[number] for number in sorted(results)]

    def test_no_change_of_a_document_is_lost(self):
        self.stores[0].load_balancers.create(
            document('changes', '203.0.113.20'))

        def write(store, letter):
            return [store.load_balancers.change(
                'changes', lambda document: dict(
                    document, name=document['name'] + letter))
                for _ in range(ROUNDS)]
        generations = self.at_once(write, 'ab')
        for written in generations:
            self.assertIsInstance(written, list, written)
        self.assertEqual(2 * ROUNDS, len(set(itertools.chain(
            *generations))))
        for store in self.stores:
            self.assertEqual('a' * ROUNDS + 'b' * ROUNDS, ''.join(sorted(
                store.load_balancers.get('changes').document['name'])))

    def test_what_one_has_made_the_other_one_changes(self):
        """Also while its server has yet to learn of it."""
        for number in range(ROUNDS):
            key = f'made-{number}'
            with self.cluster.lagging(2):
                self.stores[0].load_balancers.create(document(
                    key, f'198.51.100.{number}'))
                change = threading.Thread(
                    target=self.stores[1].load_balancers.change, args=(
                        key, lambda document: dict(document, name='changed')))
                change.start()
                change.join(0.1)  # It has begun, as far as it can.
            change.join()
            self.assertEqual('changed', self.stores[0].load_balancers.get(
                key).document['name'])

    def test_one_of_two_gets_a_vip(self):
        def ask(store, key, address):
            return store.requests.add(requesting.created(
                key, vip_address=address, pools={}, listeners={}),
                str(uuid.uuid4()))
        for number in range(ROUNDS):
            address = f'203.0.113.{100 + number}'
            answers = self.at_once(
                ask, [f'one-{number}', f'two-{number}'], [address] * 2)
            self.assertEqual({requests.Stored, errors.Conflict},
                             set(map(type, answers)), answers)

    def test_one_of_two_gets_each_item_of_work(self):
        ids = {f'work-{number}' for number in range(ROUNDS)}
        self.stores[0].work.mark(ids)
        claimed = collections.Counter()
        for _ in range(4 * ROUNDS):
            answers = self.at_once(
                lambda store, owner: store.work.claim(owner, 2, 600),
                ['one', 'two'])
            claimed.update(item.load_balancer_id
                           for items in answers for item in items)
        self.assertEqual(dict.fromkeys(ids, 1), {
            key: number for key, number in claimed.items() if key in ids})

    def test_one_of_two_leads(self):
        for number in range(ROUNDS):
            answers = self.at_once(
                lambda store, lease, owner: store.leases.acquire(
                    lease, owner, 600),
                [f'lease-{number}'] * 2, ['one', 'two'])
            self.assertEqual([1], [token for token in answers if token],
                             answers)

    def test_one_of_two_plans_of_a_placement_is_made(self):
        self.stores[0].load_balancers.create(
            document('placed', '203.0.113.21'))
        on = frozenset()
        for number in range(ROUNDS):
            hosts = [f'one-{number}', f'two-{number}']
            answers = self.at_once(
                lambda store, host, decided_on: store.placements.place(
                    'placed', add=[host], decided_on=decided_on),
                hosts, [on] * 2)
            self.assertEqual([False, True], sorted(answers))
            on |= {hosts[answers.index(True)]}
        self.assertEqual(on, {placement.host for placement
                              in self.stores[1].placements.select(['placed'])})
