# SPDX-License-Identifier: Apache-2.0
"""The driver's reports of the end of a change's transaction."""

from unittest import mock
import uuid

from octavia_xdp_provider.controller import driver_api
from octavia_xdp_provider.controller.store import requests
from octavia_xdp_provider.tests.unit.controller import advancing
from octavia_xdp_provider.tests.unit.controller import requesting


class TestEnded(advancing.AdvanceTestCase):
    """Octavia shows none of these changes, as it is not asked."""

    def setUp(self):
        super().setUp()
        self.changed = mock.Mock()
        self.api = driver_api.DriverEndpoint(
            self.store, mock.Mock(), self.changed,
            lambda change: self.notified.update(change.hosts))

    def change(self, change, reports_end=True):
        request = str(uuid.uuid4())
        answer = self.api.change(None, change, request,
                                 self.store.database.now() + 30, reports_end)
        self.assertEqual(request, answer['accepted'])
        return request

    def test_committed_change_is_promoted_at_once(self):
        request = self.change(requesting.created())
        self.api.ended(None, request, True)
        self.work()
        self.assertEqual({'a', 'b'}, self.notified)
        self.assertEqual({'lb'}, set(
            self.generations('a')))

    def test_nodes_are_notified_without_a_worker(self):
        self.do(requesting.created())
        self.notified.clear()
        self.api.ended(None, self.change(requesting.ADDED), True)
        self.assertEqual({'a', 'b'}, self.notified)
        self.assertIn('m3', self.members())

    def test_details_of_refusal_are_in_the_answer_and_the_log(self):
        self.store.nodes.register('c')
        self.seen('c', {'services': 0, 'services_max': 0})
        self.store.nodes.set_in_service('a', False)
        self.store.nodes.set_in_service('b', False)
        with self.assertLogs('octavia_xdp_provider.controller') as logged:
            answer = self.api.change(None, requesting.created(), 'r',
                                     self.store.database.now() + 30, True)
        self.assertNotIn('c has', answer['refused'])
        self.assertIn('c has 0 of 0 services', answer['detail'])
        self.assertIn(answer['detail'], logged.output[-1])

    def test_rolled_back_change_has_no_effect(self):
        self.do(requesting.created())
        before = self.store.load_balancers.get('lb')
        self.api.ended(None, self.change(requesting.deleted()), False)
        self.assertEqual(before, self.store.load_balancers.get('lb'))

    def test_repeated_or_late_end_changes_nothing(self):
        self.do(requesting.created())
        request = self.change(requesting.ADDED)
        for _ in range(2):
            self.api.ended(None, request, True)
        before = self.store.load_balancers.get('lb')
        self.api.ended(None, request, False)
        self.api.ended(None, str(uuid.uuid4()), True)
        self.assertEqual(before, self.store.load_balancers.get('lb'))

    def test_octavia_is_asked_if_the_report_is_lost(self):
        self.change(requesting.created())
        self.commit()
        self.assertEqual([], self.work())
        self.now += requests.UNREPORTED_S + 1
        self.work()
        self.assertEqual({'a', 'b'}, self.notified)
