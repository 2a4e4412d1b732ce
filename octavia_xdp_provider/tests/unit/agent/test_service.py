# SPDX-License-Identifier: Apache-2.0
"""What the link makes of the controller's answers."""

import errno
import json
import threading
from unittest import mock

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

    def test_an_unchanged_answer_needs_no_pass(self):
        _, held = self.answer(5, {'a': 3})
        as_of, again = self.answer(7, {'a': 3}, {})
        self.assertEqual(7, as_of)
        self.assertIs(held, again)

    def test_an_older_database_removes_nothing(self):
        self.answer(50, {'a': 30, 'b': 40})
        self.assertEqual(
            (50, {'a': (1, {'id': 'a'}), 'b': (40, {'id': 'b'})}),
            self.answer(1, {'a': 1}))
        self.assertEqual((51, {'a': (1, {'id': 'a'})}),
                         self.answer(51, {'a': 1}))

    def test_what_was_told_last_survives_a_restart(self):
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
        self.agent._outcome = reconcile.Outcome(wanted, {'a': 1}, {})
        self.agent._reconciler = mock.Mock()
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
