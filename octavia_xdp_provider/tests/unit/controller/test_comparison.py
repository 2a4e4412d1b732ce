# SPDX-License-Identifier: Apache-2.0
"""Comparisons with Octavia that a change asks for, or that cannot be made."""

from unittest import mock

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.octavia import errors
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import advancing
from octavia_xdp_provider.tests.unit.controller import requesting


class TestIncompleteChange(advancing.AdvanceTestCase):

    def test_what_the_driver_was_not_told_is_taken_over_before_active(self):
        self.request({**requesting.created(), 'incomplete': True})
        document = self.store.load_balancers.get('lb').pending['expected']
        document['pools']['pool']['members']['m3'] = spec.with_defaults(
            'member', base.member('198.18.10.13'))
        self.octavia.commit(document)
        self.now += 1
        self.work()
        self.assertEqual({'m1', 'm2', 'm3'}, self.members())
        self.assertIsNone(self.provisioning())
        self.report()
        self.work()
        for key in (*advancing.ALL, 'm3'):
            self.assertEqual('ACTIVE', self.provisioning(key))

    def test_complete_change_is_not_compared(self):
        with mock.patch.object(self.octavia, 'document') as document:
            self.do(requesting.created())
        document.assert_not_called()
        self.assertEqual('ACTIVE', self.provisioning())


class TestCertificates(advancing.AdvanceTestCase):

    def change_with(self, **pool):
        """Make a change while Octavia cannot look the load balancer up."""
        self.do(requesting.created())
        self.store.load_balancers.change('lb', lambda document: {
            **document, 'pools': {'pool': {**document['pools']['pool'],
                                           **pool}}})
        self.store.sent_statuses.note_listed({'lb': 'later'})
        self.octavia.trees['lb']['listener', 'listener'] = 'PENDING_UPDATE'
        with mock.patch.object(self.octavia, 'document', side_effect=(
                errors.OctaviaUnavailable('no answer'))):
            self.work()
            self.report()
            self.work()

    def test_lost_certificate_does_not_stop_statuses(self):
        """octavia-driver-agent answers nothing about a load balancer whose
        certificate a tenant has deleted."""
        self.change_with(ca_tls_container_ref='deleted')
        self.assertEqual(
            'ACTIVE', self.octavia.trees['lb']['listener', 'listener'])

    def test_without_certificates_octavia_is_asked_again(self):
        self.assertRaises(errors.OctaviaUnavailable, self.change_with)
