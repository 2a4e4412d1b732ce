# SPDX-License-Identifier: Apache-2.0
"""Which certificates are in the database, as what, and for how long."""

import base64
import subprocess

from cryptography import fernet

from octavia_xdp_provider.bundles import sealing
from octavia_xdp_provider.tests.unit.controller import keeping
from octavia_xdp_provider.tests.unit.controller import requesting

LB = keeping.LB


class Bundles(keeping.BundlesTestCase):

    def test_ciphertext_alone_is_stored_along_with_the_pending_change(self):
        self.create()
        made = keeping.certificate()
        request = self.add(self.listener('create', made))
        row = self.rows()[made.name(LB)]
        self.assertEqual('certificate', row.kind)
        plain = fernet.Fernet(self.key).decrypt(row.ciphertext.encode())
        self.assertIn(made.pem.splitlines()[1], plain)
        stored = self.store.load_balancers.get(LB)
        self.assertIn(made.name(LB), repr(stored.pending['expected']))
        self.assertNotIn('bundles', stored.pending['change'])
        self.store.load_balancers.promote(LB, request)
        self.assertEqual({made.name(LB)}, set(self.rows()))

    def test_end_of_the_certificate_is_stored(self):
        self.create()
        made = keeping.certificate()
        self.do(self.listener('create', made))
        printed = subprocess.run(
            ['openssl', 'x509', '-noout', '-enddate', '-dateopt', 'iso_8601'],
            input=made.pem, capture_output=True, check=True).stdout.decode()
        seconds = subprocess.run(
            ['date', '-d', printed.partition('=')[2].strip(), '+%s'],
            capture_output=True, check=True).stdout
        self.assertEqual(int(seconds), self.rows()[
            made.name(LB)].expires_at)

    def test_load_balancer_is_created_with_its_certificates(self):
        self.register_proxy()
        made = keeping.certificate()
        listener = self.listener('create', made)
        request = self.add({
            **requesting.created(LB, listeners={
                keeping.TLS: listener['fields']}),
            'bundles': listener['bundles']})
        self.assertEqual({made.name(LB)}, set(self.rows()))
        self.store.requests.cancel(request)
        self.assertEqual({}, self.rows())

    def test_rolled_back_certificate_is_deleted(self):
        self.create()
        first, second = keeping.certificate(), keeping.certificate()
        self.do(self.listener('create', first))
        request = self.add(self.listener('update', second))
        self.assertEqual({first.name(LB), second.name(LB)},
                         set(self.rows()))
        self.store.requests.drop(LB, request)
        self.assertEqual({first.name(LB)}, set(self.rows()))

    def test_newer_pending_change_replaces_the_certificate_of_the_last(self):
        self.create()
        first, second = keeping.certificate(), keeping.certificate()
        self.add(self.listener('create', first))
        self.add(self.listener('create', second))
        self.assertEqual({second.name(LB)}, set(self.rows()))

    def test_certificate_that_no_document_names_any_more_is_deleted(self):
        self.create()
        first, second = keeping.certificate(), keeping.certificate()
        self.do(self.listener('create', first))
        self.do(self.listener('update', second))
        self.assertEqual({second.name(LB)}, set(self.rows()))
        self.do({'object': 'listener', 'action': 'delete',
                 'object_id': keeping.TLS, 'load_balancer_id': LB})
        self.assertEqual({}, self.rows())

    def test_correction_of_the_document_leaves_pending_certificates(self):
        """A comparison with Octavia corrects documents this way."""
        self.create()
        first, second = keeping.certificate(), keeping.certificate()
        self.do(self.listener('create', first))
        self.add(self.listener('update', second))

        def without_listener(document):
            return {**document, 'listeners': {
                key: listener for key, listener
                in document['listeners'].items() if key != keeping.TLS}}
        self.store.load_balancers.change(LB, without_listener)
        self.assertEqual({second.name(LB)}, set(self.rows()))

    def test_deleted_load_balancer_has_no_certificates(self):
        self.create()
        self.do(self.listener('create', keeping.certificate()))
        request = self.add(requesting.deleted(LB))
        self.assertEqual(1, len(self.rows()))
        self.store.load_balancers.promote(LB, request)
        self.assertEqual({}, self.rows())

    def test_other_changes_leave_certificates_alone(self):
        self.create()
        made = keeping.certificate()
        self.do(self.listener('create', made))
        self.do(requesting.ADDED)
        self.assertEqual({made.name(LB)}, set(self.rows()))


class Tickets(keeping.BundlesTestCase):

    def setUp(self):
        super().setUp()
        self.create()
        self.do(self.listener('create', keeping.certificate()))
        self.pair_of_node = sealing.KeyPair(b'n' * 32)
        self.place_on_proxy(self.pair_of_node.public)

    def ticket_keys(self, now):
        for key in self.store.bundles.without_tickets('proxy', [LB], now):
            self.store.bundles.renew_tickets(
                key, now, lambda row: self.vault.renew_tickets(LB, row,
                                                               now))
        (key, row), = self.store.bundles.tickets_for_node(
            'proxy', [LB]).bundles
        opened = self.pair_of_node.open(
            self.vault.seal(key, row, self.pair_of_node.public), key,
            row.name)
        return [base64.b64decode(line) for line in opened.pem.splitlines()]

    def test_keys_change_once_a_period_and_overlap(self):
        self.conf.set_override('ticket_rotation', 1000, 'secrets')
        first = self.ticket_keys(10_000)
        self.assertEqual(first, self.ticket_keys(10_999))
        second = self.ticket_keys(11_000)
        self.assertEqual(first[1:], second[:2])
        # After a period without requests one key of the clients' remains.
        third = self.ticket_keys(13_100)
        self.assertEqual(second[2:], third[:1])
        self.assertEqual(set(), {*third} & {*self.ticket_keys(20_000)})
        self.assertEqual(1, sum(row.kind == 'tickets'
                                for row in self.rows().values()))

    def test_load_balancer_without_a_certificate_has_no_keys(self):
        self.ticket_keys(10_000)
        self.do({'object': 'listener', 'action': 'delete',
                 'object_id': keeping.TLS, 'load_balancer_id': LB})
        self.assertEqual({}, self.rows())
        self.assertEqual([], self.store.bundles.without_tickets(
            'proxy', [LB], 10_000))
