# SPDX-License-Identifier: Apache-2.0
"""How a hypervisor applies the controller's answers, and what it stores."""

from unittest import mock

import fixtures

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.host import documents
from octavia_xdp_provider.host import fetching
from octavia_xdp_provider.process.agents import wanted
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.host import fakes

COMMON = {'networks': ['192.0.2.0/24'], 'peers': []}


class TestFetching(base.TestCase):

    def setUp(self):
        super().setUp()
        self.folder = self.useFixture(fixtures.TempDir()).path
        self.controller = mock.Mock()
        self.changed = mock.Mock()
        self.restart()

    def restart(self):
        self.fetcher = fetching.Fetcher(
            self.controller, 'hv1', wanted.Cache(f'{self.folder}/wanted'),
            f'{self.folder}/common.json', self.changed)

    def answer(self, *wanted_documents, common=COMMON, refused=None):
        entries = []
        for wanted_document in wanted_documents:
            document = dict(wanted_document)
            entries.append({'id': document['id'], 'generation': 3,
                            'kind': document.pop(documents.KIND),
                            'document': document})
        self.controller.fetch.return_value = {
            'as_of': 3, 'changed': entries, 'removed': [], 'more': None,
            'compare': False, 'common': common, 'refused': refused}
        self.controller.compare.return_value = {
            'as_of': 3, 'more': None,
            'generations': {document['id']: 3
                            for document in wanted_documents}}
        self.fetcher.fetch()
        self.fetcher.save()

    def test_kinds_and_what_is_common_outlive_the_agent(self):
        self.answer(fakes.port(fakes.entry(5)), fakes.address_set())
        self.changed.assert_called_once_with()
        for _ in range(2):
            held = self.fetcher.wanted.documents
            self.assertEqual({fakes.PORT: True, fakes.GROUP: False}, {
                key: documents.is_port(document)
                for key, (_generation, document) in held.items()})
            self.assertEqual(fakes.PORT, documents.parse(
                fakes.PORT, held[fakes.PORT][1]).port['id'])
            self.assertEqual(COMMON, self.fetcher.common)
            self.restart()

    def test_refusal_takes_nothing_away_and_is_named(self):
        self.answer(fakes.port())
        error = self.assertRaises(errors.Refused, self.answer,
                                  common={'networks': [], 'peers': []},
                                  refused='not registered')
        self.assertIn('not registered', str(error))
        self.assertEqual('not registered', self.fetcher.refused)
        self.assertEqual(COMMON, self.fetcher.common)
        self.assertEqual({fakes.PORT}, set(self.fetcher.wanted.documents))
        self.answer(fakes.port())
        self.assertIsNone(self.fetcher.refused)

    def test_malformed_answers_change_nothing(self):
        self.answer(fakes.port())
        before = self.fetcher.wanted
        self.controller.fetch.return_value = {'as_of': 9}
        self.assertRaises(errors.Refused, self.fetcher.fetch)
        self.assertIs(before, self.fetcher.wanted)

    def test_document_of_another_id_is_refused(self):
        self.assertRaises(errors.Refused, documents.parse, fakes.OTHER,
                          fakes.port())
