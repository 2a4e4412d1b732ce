# SPDX-License-Identifier: Apache-2.0
"""Which certificates are in the database, as what, and for how long."""

import base64
import dataclasses
import subprocess

from cryptography import fernet
import prometheus_client

from octavia_xdp_provider.bundles import bundle
from octavia_xdp_provider.bundles import sealing
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.controller import metrics
from octavia_xdp_provider.tests.unit.bundles import certificates
from octavia_xdp_provider.tests.unit.controller import keeping
from octavia_xdp_provider.tests.unit.controller import requesting

OTHER_TLS = '33333333-3333-4333-8333-333333333333'
LB = keeping.LB


class TestStored(keeping.BundlesTestCase):

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
        self.store.nodes.register('proxy1', role='proxy',
                                  addresses=['198.51.100.1'])
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


class TestRefused(keeping.BundlesTestCase):

    def setUp(self):
        super().setUp()
        self.create()
        self.made = keeping.certificate()

    def refused(self, change, option='default_tls_container_ref'):
        error = self.assertRaises(errors.Refused, self.add, change)
        self.assertEqual(option, error.option)
        self.assertEqual({}, self.rows())
        return error

    def test_document_with_a_certificate_that_is_not_stored_is_refused(self):
        self.refused({**self.listener('create', self.made), 'bundles': {}})

    def test_what_is_not_sealed_for_the_controllers_is_refused(self):
        other = sealing.KeyPair(b'x' * 32)
        error = self.refused({
            **self.listener('create', self.made), 'bundles': {
                self.made.name(LB): sealing.seal(self.made, other.public)}})
        self.assertIn('not sealed for this process', error.for_operator)
        self.assertNotIn('sealed', str(error))

    def test_another_content_than_its_name_says_is_refused(self):
        other = keeping.certificate('rsa')
        self.refused({**self.listener('create', self.made), 'bundles': {
            self.made.name(LB): sealing.seal(other, self.pair.public)}})

    def test_keys_of_tickets_of_a_driver_are_refused(self):
        self.refused(self.listener('create', bundle.tickets()))

    def test_missing_or_readable_keys_are_named_to_the_operator(self):
        for name, option in (('keys', 'keys_file'),
                             ('private-key', 'private_key_file')):
            path = self.folder / name
            path.chmod(0o644)
            error = self.refused(self.listener('create', self.made))
            self.assertIn(f'[secrets] {option}', error.for_operator)
            self.assertNotIn(option, str(error))
            path.unlink()
            error = self.refused(self.listener('create', self.made))
            self.assertIn(f'[secrets] {option}', error.for_operator)
            self.assertFalse(path.exists())
            sealing.KeyPair.load(path)  # so that the other one is reached
            self.write_keys(self.key)

    def test_too_many_certificates_are_refused(self):
        made = [dataclasses.replace(self.made, salt=bytes([number]) * 32)
                for number in range(129)]
        for key in (keeping.TLS, OTHER_TLS):
            change = self.listener('create', self.made, key, sni_bundles=[
                content.name(LB) for content in made])
            change['bundles'].update(self.sealed(*made))
            if key == OTHER_TLS:
                change['fields']['protocol_port'] = 444
                change['fields']['sni_bundles'] = [
                    f'{number:064x}' for number in range(129)]
                error = self.assertRaises(errors.Refused, self.add, change)
                self.assertEqual('sni_container_refs', error.option)
                self.assertIn('at most 256', str(error))
            else:
                self.do(change)

    def test_contents_are_never_stored_with_a_change(self):
        self.assertRaises(ValueError, self.store.requests.add,
                          self.listener('create', self.made), 'request')


class TestTickets(keeping.BundlesTestCase):

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
        # Nobody asked for a while: one key is left that clients may have.
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


class TestAuthority(keeping.BundlesTestCase):

    def test_bundles_of_a_pool_are_stored_and_deleted_with_it(self):
        self.create()
        made = bundle.authority(certificates.made()[0])
        self.do({'object': 'pool', 'action': 'update', 'object_id': 'pool',
                 'load_balancer_id': LB, 'bundles': self.sealed(made),
                 'fields': {'ca_bundle': made.name(LB)}})
        self.assertEqual({made.name(LB): 'authority'}, {
            name: row.kind for name, row in self.rows().items()})
        self.do({'object': 'pool', 'action': 'update', 'object_id': 'pool',
                 'load_balancer_id': LB, 'fields': {'ca_bundle': None}})
        self.assertEqual({}, self.rows())


class TestExpiry(keeping.BundlesTestCase):

    def value(self, days):
        registry = prometheus_client.CollectorRegistry()
        registry.register(metrics.Collector(self.store, lambda: True,
                                            self.conf.placement))
        return registry.get_sample_value(
            'octavia_xdp_controller_load_balancers_expiring',
            {'days': str(days)})

    def values(self):
        return [self.value(days) for days in (0, 7, 30)]

    def test_load_balancers_are_counted_by_their_nearest_end(self):
        self.hold_time()
        self.create()
        self.assertEqual([0, 0, 0], self.values())
        made = keeping.certificate()
        self.do(self.listener('create', made))
        ends = self.rows()[made.name(LB)].expires_at
        day = 24 * 3600
        for left, expected in ((31, [0, 0, 0]), (29, [0, 0, 1]),
                               (6, [0, 1, 1]), (-1, [1, 1, 1])):
            self.now = ends - left * day
            self.assertEqual(expected, self.values(), left)
