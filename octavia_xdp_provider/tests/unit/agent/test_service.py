# SPDX-License-Identifier: Apache-2.0
"""What the link makes of the controller's answers."""

import errno
import json
import tempfile
import threading
from unittest import mock

import fixtures

from octavia_xdp_provider.agent import reconcile
from octavia_xdp_provider.agent import service
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.unit import base


class TestLink(base.TestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.create_tempfiles(
            [('x', '')])[0].rpartition('/')[0]
        self.restart()

    def restart(self):
        """An agent without threads, datapath and broker."""
        conf = self.load(f'[agent]\nrun_directory = {self.directory}\n')
        with mock.patch.multiple(
                service, rpc=mock.DEFAULT, netlink=mock.DEFAULT,
                monitor=mock.DEFAULT), \
                mock.patch.object(service.run_directory.RunDirectory,
                                  'open_datapath'):
            self.agent = service.Agent(conf)
        self.agent._done = mock.MagicMock(spec=threading.Condition())

    def answer(self, as_of, generations, documents=None):
        """Fetch this; (as of, load balancers) that are wanted then."""
        self.agent._controller.fetch.return_value = {
            'as_of': as_of, 'generations': generations,
            'documents': ({key: {'id': key} for key in generations}
                          if documents is None else documents)}
        self.agent._fetch()
        return self.agent._wanted.as_of, self.agent._wanted.load_balancers

    def test_only_what_differs_is_sent(self):
        self.answer(5, {'a': 3, 'b': 4})
        as_of, held = self.answer(9, {'a': 3, 'b': 8},
                                  {'b': {'id': 'b', 'name': 'new'}})
        self.assertEqual(9, as_of)
        self.assertEqual({'a': (3, {'id': 'a'}),
                          'b': (8, {'id': 'b', 'name': 'new'})}, held)
        self.assertEqual({'a': 3, 'b': 4},
                         self.agent._controller.fetch.call_args.args[1])

    def test_what_is_not_listed_is_removed(self):
        self.answer(5, {'a': 3, 'b': 4})
        self.assertEqual((6, {'a': (3, {'id': 'a'})}),
                         self.answer(6, {'a': 3}))

    def test_unchanged_answer_needs_no_pass(self):
        _, held = self.answer(5, {'a': 3})
        as_of, again = self.answer(7, {'a': 3}, {})
        self.assertEqual(7, as_of)
        self.assertIs(held, again)

    def test_older_database_removes_nothing(self):
        self.answer(50, {'a': 30, 'b': 40})
        self.assertEqual(
            (50, {'a': (1, {'id': 'a'}), 'b': (40, {'id': 'b'})}),
            self.answer(1, {'a': 1}))
        self.assertEqual((51, {'a': (1, {'id': 'a'})}),
                         self.answer(51, {'a': 1}))

    def fail_to_write(self):
        return mock.patch.object(
            service.atomic_file, 'replace',
            side_effect=OSError(errno.ENOSPC, 'No space left on device'))

    def test_what_was_fetched_is_applied_where_no_cache_can_be_written(self):
        log = self.useFixture(fixtures.FakeLogger())
        with self.fail_to_write():
            for as_of in (5, 6):
                self.assertEqual((as_of, {'a': (as_of, {'id': 'a'})}),
                                 self.answer(as_of, {'a': as_of}))
        self.assertEqual(1, log.output.count('No space left on device'))
        self.assertNotIn('does not answer', log.output)

    def test_cache_is_written_as_soon_as_it_can_be(self):
        with self.fail_to_write():
            self.answer(5, {'a': 3})
        self.answer(6, {'a': 3}, {})
        self.restart()
        self.assertEqual(reconcile.Wanted(6, {'a': (3, {'id': 'a'})}),
                         self.agent._wanted)

    def report(self, file_errors=()):
        """What is reported of one load balancer with one member."""
        self.agent._result = reconcile.PassResult(
            self.agent._wanted, {'a': {'generation': 3, 'error': None}}, {})
        self.agent._state = dict
        self.agent._reconciler = mock.Mock(file_errors=dict(file_errors))
        self.agent._reconciler.members.return_value = {'a': {'m': 'up'}}
        self.agent._report()
        return self.agent._controller.report.call_args.args[1]

    def test_node_without_space_reports_that_it_cannot_do_its_part(self):
        self.answer(5, {'a': 3})
        log = self.useFixture(fixtures.FakeLogger())
        with mock.patch.object(
                tempfile, 'TemporaryFile', side_effect=OSError(
                    errno.ENOSPC, 'No space left on device')):
            for _ in range(3):
                report = self.report()
        text = f'{self.directory} cannot be written: No space left on device'
        self.assertEqual({'a': {'generation': 3, 'error': text}},
                         report['synced'])
        self.assertEqual({'a': {'m': 'unknown'}}, report['members'])
        self.assertEqual([text], report['state']['problems'])
        self.assertEqual(1, log.output.count(text))

    def test_file_that_cannot_be_written_is_reported(self):
        self.answer(5, {'a': 3})
        report = self.report({'checks': 'checks cannot be written: no'})
        self.assertEqual('checks cannot be written: no',
                         report['synced']['a']['error'])
        self.assertEqual({'a': {'m': 'unknown'}}, report['members'])

    def test_node_that_can_write_reports_no_problem(self):
        self.answer(5, {'a': 3})
        report = self.report()
        self.assertEqual({'a': {'generation': 3, 'error': None}},
                         report['synced'])
        self.assertEqual({'a': {'m': 'up'}}, report['members'])
        self.assertEqual([], report['state']['problems'])

    def test_tables_that_cannot_be_read_are_no_silence_of_the_controller(
            self):
        log = self.useFixture(fixtures.FakeLogger())
        self.agent._fetch = mock.Mock()
        self.agent._stop = mock.Mock()
        self.agent._stop.is_set.side_effect = [False, True]
        self.agent._talk = mock.Mock()
        self.agent._report = mock.Mock(side_effect=datapath.DatapathError(
            errno.EIO, 'the maps are gone'))
        self.agent._link()
        self.assertIn('the maps are gone', log.output)
        self.assertNotIn('does not answer', log.output)

    def test_what_was_sent_last_survives_a_restart(self):
        self.answer(5, {'a': 3})
        self.restart()
        self.assertEqual(reconcile.Wanted(5, {'a': (3, {'id': 'a'})}),
                         self.agent._wanted)

    def test_a_torn_cache_is_not_used(self):
        self.answer(5, {'a': 3})
        for text in ('{"as_of": 5', '[]', '{}', json.dumps({'as_of': 1})):
            with open(self.agent._files.wanted, 'w') as file:
                file.write(text)
            self.restart()
            self.assertIsNone(self.agent._wanted)

    def test_the_report_is_as_of_what_was_made_true(self):
        self.answer(5, {'a': 3})
        wanted = self.agent._wanted
        self.agent._result = reconcile.PassResult(wanted, {'a': 1}, {})
        self.agent._reconciler = mock.Mock(file_errors={})
        self.agent._reconciler.members.return_value = {}
        self.agent._state = dict

        def reported():
            self.agent._report()
            return self.agent._controller.report.call_args.args[1]['as_of']
        self.assertEqual(5, reported())
        self.answer(8, {'a': 3}, {})
        self.assertEqual(8, reported())
        self.answer(9, {'a': 9})
        self.assertEqual(5, reported())

    def test_ends_when_another_library_took_over(self):
        self.agent._datapath.info.side_effect = datapath.DatapathError(
            errno.ESTALE, 'taken over')
        self.agent._worker()
        self.assertTrue(self.agent._stop.is_set())
        self.assertEqual(1, self.agent.run())
