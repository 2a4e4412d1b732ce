# SPDX-License-Identifier: Apache-2.0
"""Comparisons with Octavia that a change asks for, or that cannot be made."""

from unittest import mock

import fixtures

from octavia_xdp_provider.contracts import changes
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller import comparison
from octavia_xdp_provider.controller.octavia import errors
from octavia_xdp_provider.tests.support import proxied
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import advancing
from octavia_xdp_provider.tests.unit.controller import base as store_base
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


class TestLayer7(store_base.StoreTestCase):
    """A change of policies whose message was lost."""

    def setUp(self):
        super().setUp()
        self.octavia = store_base.FakeOctavia()
        self.key, listener, pool = (proxied.uuid_of(name) for name in (
            'load balancer', 'web', 'webs'))
        self.document = spec.document(self.key, base.tree(
            listeners={listener: {'protocol': 'HTTP', 'protocol_port': 80,
                                  'default_pool_id': pool}},
            pools={pool: {'protocol': 'HTTP', 'lb_algorithm': 'ROUND_ROBIN'}}))
        self.store.load_balancers.create(self.document)
        self.listener_id, = self.document['listeners']

    def change(self, kind, action, key, parent, /, **fields):
        self.document = changes.apply(self.document, {
            'object': kind, 'action': action, 'object_id': key,
            changes.PARENTS[kind]: parent, 'fields': fields})

    def compare(self, deleted=()):
        """Let Octavia commit the document; return what is PENDING here."""
        self.octavia.commit(self.document, deleted=deleted)
        self.store.sent_statuses.note_listed({self.key: 'later'})
        comparison.Comparison(self.store, self.octavia).compare(
            self.store.load_balancers.get(self.key))
        row = self.store.load_balancers.get(self.key)
        return {item[:2] for item in row.unconfirmed}, row.document

    def test_lost_changes_of_policies_are_taken_over(self):
        policy, other, rule = (proxied.uuid_of(name)
                               for name in ('policy', 'other', 'rule'))
        for key in (policy, other):
            self.change('l7policy', 'create', key, self.listener_id,
                        action='REJECT', position=1)
        self.change('l7rule', 'create', rule, policy, type='PATH',
                    compare_type='EQUAL_TO', value='/a')
        pending, document = self.compare()
        self.assertEqual(self.document, document)
        self.assertLessEqual({
            ('l7policy', policy), ('l7policy', other), ('l7rule', rule)},
            pending)
        # DELETED has to be sent for an object that is being deleted.
        _pending, document = self.compare([('l7policy', other)])
        self.change('l7policy', 'delete', other, self.listener_id)
        self.assertEqual(self.document, document)
        self.assertIn(('l7policy', other), {
            item[:2] for item in self.store.load_balancers.get(
                self.key).removed})

    def test_what_breaks_a_rule_is_not_taken_over(self):
        before = self.document
        self.change('l7policy', 'create', proxied.uuid_of('policy'),
                    self.listener_id, action='REDIRECT_TO_URL', position=1,
                    redirect_url='https://example.com/ä')
        log = self.useFixture(fixtures.FakeLogger())
        self.assertEqual(before, self.compare()[1])
        self.assertIn('redirect_url', log.output)
