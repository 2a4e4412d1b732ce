# SPDX-License-Identifier: Apache-2.0
"""Certificates that are refused, those of pools, and when they end."""

import dataclasses

import prometheus_client

from octavia_xdp_provider.bundles import bundle
from octavia_xdp_provider.bundles import sealing
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.controller import metrics
from octavia_xdp_provider.tests.unit.bundles import certificates
from octavia_xdp_provider.tests.unit.controller import keeping

LB = keeping.LB
OTHER_TLS = '33333333-3333-4333-8333-333333333333'


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
