# SPDX-License-Identifier: Apache-2.0

from unittest import mock

from octavia_xdp_provider.process.agents import wanted
from octavia_xdp_provider.proxy.agent import parts
from octavia_xdp_provider.proxy.agent import worker
from octavia_xdp_provider.tests.unit.proxy.agent import node

FIRST = node.FIRST


class TestWorker(node.NodeTestCase):

    def setUp(self):
        super().setUp()
        self.news = None
        self.problem = None
        self.notify = mock.Mock()
        self.find_node = mock.Mock(return_value=node.NODE)
        self.worker = worker.Worker(
            self.agent, self.states, self.take, self.find_node,
            lambda: self.problem, parts.NoTraffic(), mock.Mock(),
            self.notify)

    def take(self):
        news, self.news = self.news, set()
        return news

    def want(self, *wanted_documents):
        self.as_of += 1
        self.worker.want(wanted.Wanted(self.as_of, {
            document['id']: (self.as_of, document)
            for document in wanted_documents}))
        self.turn()

    def turn(self):
        self.notify.reset_mock()
        self.worker.turn(False)

    def test_nothing_is_done_before_it_is_known_what_is_wanted(self):
        self.turn()
        self.assertIsNone(self.worker.result)
        self.find_node.assert_not_called()

    def test_states_are_reported_without_a_pass(self):
        self.want(node.document())
        self.assertTrue(self.worker.has_applied(self.worker._wanted))
        self.notify.assert_not_called()
        self.answer()
        self.find_node.reset_mock()
        # The test's own look has taken the state; the next one is the
        # worker's.
        self.states._statuses.clear()
        self.news = {FIRST}
        self.agent.held = {}
        self.turn()
        self.assertEqual((1, None), self.held())
        self.notify.assert_called_once_with()
        self.find_node.assert_not_called()
        self.turn()
        self.notify.assert_not_called()

    def test_pass_is_repeated_while_something_is_missing(self):
        document = node.document(protocol='TERMINATED_HTTPS',
                                 default_tls_bundle=64 * '0')
        self.secrets.problem = 'another key'
        self.want(document)
        self.assertEqual(['another key'], self.worker.problems)
        self.secrets.contents, self.secrets.problem = {'file': b''}, None
        self.turn()
        self.launch()
        self.assertEqual([], self.worker.problems)
        self.find_node.reset_mock()
        self.turn()
        self.find_node.assert_not_called()

    def test_problems_are_those_of_the_node(self):
        self.problem = 'no launcher'
        self.want(node.document())
        self.assertEqual(['no launcher'], self.worker.problems)
        self.notify.assert_called_once_with()
        self.problem = None
        self.find_node.side_effect = ValueError('old')
        self.want(node.document(connection_limit=7))
        self.assertEqual(['[proxy] haproxy: old'], self.worker.problems)
        self.assertFalse(self.worker.has_applied(self.worker._wanted))
        self.find_node.side_effect = None
        self.turn()
        self.assertEqual([], self.worker.problems)
        self.assertTrue(self.worker.has_applied(self.worker._wanted))

    def test_foreign_changes_are_found_without_an_event(self):
        self.want(node.document())
        text = self.configuration()
        (self.directory() / 'haproxy.cfg').write_text('others')
        self.turn()
        self.assertEqual('others', self.configuration())
        self.worker._pass_at = 0.0
        self.turn()
        self.assertEqual(text, self.configuration())
