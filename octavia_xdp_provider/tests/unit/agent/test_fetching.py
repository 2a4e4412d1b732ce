# SPDX-License-Identifier: Apache-2.0
"""How a node applies the controller's answers, and what it stores."""

import errno
import os
import pathlib
import stat
from unittest import mock

import fixtures

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.process import atomic_file
from octavia_xdp_provider.process.agents import fetching
from octavia_xdp_provider.process.agents import wanted
from octavia_xdp_provider.tests.unit import base


def entry(key, generation, name=''):
    return {'id': key, 'generation': generation,
            'document': {'id': key, 'name': name}}


class FetchingTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)
        self.controller = mock.Mock()
        self.now = 0.0
        self.restart()

    def restart(self):
        self.cache = wanted.Cache(str(self.directory / 'wanted'))
        self.fetcher = fetching.Fetcher(self.controller, 'host', self.cache,
                                        clock=lambda: self.now)

    def answer(self, as_of, *changed, removed=(), compare=False,
               generations=None):
        """Fetch this; as of, and generations by id that are wanted then."""
        self.controller.fetch.return_value = {
            'as_of': as_of, 'changed': list(changed),
            'removed': list(removed), 'more': None, 'compare': compare}
        held = {change['id']: change['generation'] for change in changed}
        self.controller.compare.return_value = {
            'as_of': as_of, 'more': None,
            'generations': held if generations is None else generations}
        self.controller.documents.side_effect = lambda host, ids: [
            entry(key, generations[key], 'asked for') for key in ids]
        self.fetcher.fetch()
        self.fetcher.save()
        return self.held()

    def held(self):
        state = self.fetcher.wanted
        return state.as_of, {key: generation for key, (generation, _)
                             in state.documents.items()}


class TestFetching(FetchingTestCase):

    def test_only_what_differs_is_sent(self):
        self.answer(5, entry('a', 3), entry('b', 4))
        self.assertEqual((9, {'a': 3, 'b': 8}),
                         self.answer(9, entry('b', 8, 'new')))
        self.assertEqual(mock.call('host', 5, None),
                         self.controller.fetch.call_args)
        self.assertEqual(
            'new', self.fetcher.wanted.documents['b'][1]['name'])

    def test_removed_load_balancers_are_dropped(self):
        self.answer(5, entry('a', 3), entry('b', 4))
        self.assertEqual((6, {'a': 3}), self.answer(6, removed=['b']))

    def test_unchanged_answer_needs_no_pass(self):
        self.answer(5, entry('a', 3))
        held = self.fetcher.wanted.documents
        self.assertEqual((7, {'a': 3}), self.answer(7))
        self.assertIs(held, self.fetcher.wanted.documents)

    def test_pages_are_as_of_the_first(self):
        pages = [
            {'as_of': 5, 'changed': [entry('a', 3)], 'removed': [],
             'more': 'a', 'compare': False},
            {'as_of': 8, 'changed': [entry('b', 7)], 'removed': [],
             'more': None, 'compare': False}]
        self.controller.fetch.side_effect = pages
        self.controller.compare.return_value = {
            'as_of': 4, 'more': None, 'generations': {'a': 3, 'b': 7}}
        self.assertEqual(['a', 'b'], self.fetcher.fetch())
        self.assertEqual((5, {'a': 3, 'b': 7}), self.held())
        self.assertEqual([mock.call('host', 0, None),
                          mock.call('host', 0, 'a')],
                         self.controller.fetch.call_args_list)

    def test_draining_survives_a_restart(self):
        self.answer(5, entry('a', 3), dict(entry('b', 5), draining=True))
        self.assertEqual({'b'}, self.fetcher.wanted.draining)
        self.answer(6, entry('a', 6))
        self.restart()
        self.assertEqual({'b'}, self.fetcher.wanted.draining)
        self.answer(7, entry('b', 7))
        self.assertEqual(frozenset(), self.fetcher.wanted.draining)
        self.answer(9, dict(entry('b', 9), draining=True))
        self.answer(10, removed=['b'])
        self.assertEqual(frozenset(), self.fetcher.wanted.draining)

    def test_withdrawal_survives_a_restart(self):
        self.answer(5, dict(entry('b', 5), draining=True, withdrawn=True))
        self.restart()
        self.assertEqual(({'b'}, {'b'}), (self.fetcher.wanted.draining,
                                          self.fetcher.wanted.withdrawn))
        self.answer(7, dict(entry('b', 7), draining=True))
        self.assertEqual(({'b'}, frozenset()), (
            self.fetcher.wanted.draining, self.fetcher.wanted.withdrawn))
        self.restart()
        self.assertEqual(frozenset(), self.fetcher.wanted.withdrawn)

    def test_everything_is_compared_after_a_start_and_periodically(self):
        self.answer(5, entry('a', 3))
        self.answer(6)
        self.assertEqual(1, self.controller.compare.call_count)
        self.now += fetching.COMPARE_S + 1
        self.assertEqual(
            (6, {'a': 9, 'c': 1}),
            self.answer(6, generations={'a': 9, 'c': 1}))
        self.assertEqual('asked for', self.fetcher.wanted.documents[
            'a'][1]['name'])
        self.restart()
        self.assertEqual((6, {'a': 9}),
                         self.answer(6, generations={'a': 9}))

    def test_older_database_removes_nothing(self):
        log = self.useFixture(fixtures.FakeLogger())
        self.answer(50, entry('a', 30), entry('b', 40))
        for _ in range(2):
            self.assertEqual(
                (50, {'a': 1, 'b': 40}),
                self.answer(1, compare=True, generations={'a': 1}))
        self.assertEqual((50, {'a': 1, 'b': 40}),
                         self.answer(0, compare=True, generations={}))
        self.assertEqual(1, log.output.count('database is older'))
        self.assertEqual((51, {'a': 1}),
                         self.answer(51, compare=True,
                                     generations={'a': 1}))

    def test_malformed_answers_change_nothing(self):
        self.answer(5, entry('a', 3))
        for changed in ([entry('../a', 3)], [{'id': 'a'}], 'a',
                        [entry('a', '3')]):
            self.controller.fetch.return_value = {
                'as_of': 6, 'changed': changed, 'removed': [],
                'more': None, 'compare': False}
            self.assertRaises(errors.Refused, self.fetcher.fetch)
            self.assertEqual((5, {'a': 3}), self.held())


class TestCache(FetchingTestCase):

    def fail_to_write(self):
        return mock.patch.object(
            atomic_file, 'replace',
            side_effect=OSError(errno.ENOSPC, 'No space left on device'))

    def cached(self):
        return self.held() if self.fetcher.wanted else None

    def test_cache_survives_a_restart(self):
        self.answer(5, entry('a', 3), entry('b', 4))
        self.answer(6, entry('a', 6), removed=['b'])
        self.restart()
        self.assertEqual((6, {'a': 6}), self.cached())

    def test_change_writes_only_its_own_file(self):
        self.answer(5, entry('a', 3), entry('b', 4))
        before = (self.directory / 'wanted/b.json').stat().st_ino
        with mock.patch.object(atomic_file, 'replace',
                               wraps=atomic_file.replace) as replace:
            self.answer(6, entry('a', 6))
        self.assertEqual(['a.json', 'as_of'], [
            call.args[0].name for call in replace.call_args_list])
        self.assertEqual(
            before, (self.directory / 'wanted/b.json').stat().st_ino)

    def test_cache_is_private(self):
        self.answer(5, entry('a', 3))
        for path, mode in (('wanted', 0o700), ('wanted/a.json', 0o600),
                           ('wanted/as_of', 0o600)):
            self.assertEqual(mode, stat.S_IMODE(
                os.stat(self.directory / path).st_mode))

    def test_fetched_state_is_kept_without_a_cache(self):
        log = self.useFixture(fixtures.FakeLogger())
        with self.fail_to_write():
            for as_of in (5, 6):
                self.assertEqual((as_of, {'a': as_of}),
                                 self.answer(as_of, entry('a', as_of)))
        self.assertEqual(1, log.output.count('No space left on device'))

    def test_cache_is_written_once_there_is_room(self):
        with self.fail_to_write():
            self.answer(5, entry('a', 3))
        self.answer(5)
        self.restart()
        self.assertEqual((5, {'a': 3}), self.cached())

    def test_torn_cache_is_not_used(self):
        self.answer(5, entry('a', 3), entry('b', 3))
        for name, text in (('a.json', '{"generation": 5'), ('a.json', '[]'),
                           ('a.json', '{}'), ('as_of', '')):
            path = self.directory / 'wanted' / name
            before = path.read_text()
            path.write_text(text)
            self.restart()
            self.assertIsNone(self.fetcher.wanted, (name, text))
            path.write_text(before)
        (self.directory / 'wanted/as_of').unlink()
        self.restart()
        self.assertIsNone(self.fetcher.wanted)
        # And is replaced as a whole.
        self.answer(7, entry('a', 3))
        self.assertEqual(['a.json', 'as_of'], sorted(
            os.listdir(self.directory / 'wanted')))



class TestReceived(FetchingTestCase):
    """Pages that a controller sends without being asked."""

    def setUp(self):
        super().setUp()
        self.answer(5, entry('a', 3), entry('b', 4))
        self.controller.reset_mock()

    def receive(self, since, as_of, *changed, removed=(), compare=False,
                more=None):
        mentioned = self.fetcher.receive(since, {
            'as_of': as_of, 'changed': list(changed),
            'removed': list(removed), 'more': more, 'compare': compare})
        self.assertEqual([], self.controller.mock_calls)
        return mentioned

    def test_page_is_applied_like_an_answer(self):
        self.assertEqual(['a', 'c'], self.receive(
            5, 8, entry('a', 8), entry('c', 7), removed=['b']))
        self.assertEqual((8, {'a': 8, 'c': 7}), self.held())
        self.assertEqual(8, self.fetcher.removed_as_of)
        self.fetcher.save()
        self.restart()
        self.assertEqual((8, {'a': 8, 'c': 7}), self.held())

    def test_page_that_begins_earlier_is_taken(self):
        self.assertEqual(['a'], self.receive(2, 8, entry('a', 8)))
        self.assertEqual((8, {'a': 8, 'b': 4}), self.held())

    def test_page_after_a_gap_is_not_taken(self):
        for page in ((6, 8), (None, 8), (True, 8)):
            self.assertIsNone(self.receive(*page, entry('a', 8)))
        self.assertIsNone(self.receive(5, 8, entry('a', 8), more='a'))
        self.assertIsNone(self.receive(5, 8, entry('a', 8), compare=True))
        self.assertEqual((5, {'a': 3, 'b': 4}), self.held())

    def test_late_page_reverts_nothing(self):
        self.receive(5, 8, entry('a', 8))
        self.assertEqual([], self.receive(5, 7, removed=['a']))
        self.assertEqual([], self.receive(5, 8, entry('a', 8)))
        self.assertEqual((8, {'a': 8, 'b': 4}), self.held())

    def test_page_is_not_taken_when_a_comparison_is_due(self):
        self.now += fetching.COMPARE_S + 1
        self.assertIsNone(self.receive(5, 8, entry('a', 8)))

    def test_page_after_a_restart_is_not_taken(self):
        self.restart()
        self.assertIsNone(self.receive(5, 8, entry('a', 8)))

    def test_malformed_page_is_refused(self):
        self.assertRaises(errors.Refused, self.receive, 5, 8, {'id': 'a'})
        self.assertRaises(errors.Refused, self.fetcher.receive, 5, 'page')
        self.assertEqual((5, {'a': 3, 'b': 4}), self.held())
