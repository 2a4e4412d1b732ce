# SPDX-License-Identifier: Apache-2.0
"""What follows from a large document is made where nobody waits for it."""

from unittest import mock

from octavia_xdp_provider.api import validation
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.controller.store import base as store_base
from octavia_xdp_provider.controller.store import requests
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import requesting


class TestLargeDocuments(requesting.RequestsTestCase):

    def setUp(self):
        super().setUp()
        self.steps = []
        draw, validate = store_base.Base._draw, validation.validate
        for target, name, function in (
                (store_base.Base, '_draw', staticmethod(
                    lambda session: (self.steps.append('draw'),
                                     draw(session)))),
                (validation, 'validate',
                 lambda *arguments: (self.steps.append('validate'),
                                     validate(*arguments))),
                (requests, '_LARGE_BYTES', 0)):
            self.enterContext(mock.patch.object(target, name, function))

    def taken(self, change):
        self.steps.clear()
        self.request(change)
        return self.steps

    def members(self):
        pending = self.store.load_balancer('lb').pending
        return pending['expected']['pools']['pool']['members']

    def test_creation_is_validated_before_the_lock(self):
        self.assertEqual(['validate', 'draw'],
                         self.taken(requesting.created()))

    def test_change_of_a_large_document_is_validated_before_the_lock(self):
        self.store.create(base.document())
        self.assertEqual(['draw', 'validate'], self.taken(requesting.ADDED))
        self.assertEqual(['validate', 'draw'], self.taken(
            requesting.member('create', 'm4',
                              fields=base.member('198.18.10.14'))))
        self.assertEqual({'m1', 'm2', 'm4'}, self.members().keys())

    def test_change_of_a_stale_document_is_validated_again(self):
        self.store.create(base.document())
        self.request(requesting.ADDED)
        prepare = self.store._prepare

        def late(change):
            prepared = prepare(change)
            self.store.change('lb', without_m1)
            return prepared

        def without_m1(document):
            del document['pools']['pool']['members']['m1']
            return document
        with mock.patch.object(self.store, '_prepare', late):
            self.request(requesting.ADDED)
        self.assertEqual({'m2', 'm3'}, self.members().keys())

    def test_late_or_unknown_changes_are_refused_as_such_first(self):
        self.store.create(base.document())
        self.request(requesting.ADDED)
        bad = requesting.member('update', 'm9', fields={'weight': 1})
        self.assertRaises(errors.TooLate, self.request, bad, seconds=-1)
        self.assertRaises(errors.UnknownObject, self.request, bad)
