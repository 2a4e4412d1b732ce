# SPDX-License-Identifier: Apache-2.0
"""How an agent asks for the history of its services."""

from unittest import mock

import oslo_messaging

from octavia_xdp_provider.agent import history as histories
from octavia_xdp_provider.tests.unit import base


class TestAsker(base.TestCase):

    def setUp(self):
        super().setUp()
        self.enterContext(mock.patch.object(histories, 'RETRY_S', 0))
        self.controller = mock.Mock()
        self.without = mock.Mock()
        self.answers = []
        self.is_late = False
        self.asker = histories.Asker(
            self.controller, 'host', self.answers.append,
            lambda: self.is_late, self.without)

    def test_pages_are_put_together(self):
        self.controller.history.side_effect = [
            {'load_balancers': {'a': {}}, 'more': 'a'},
            {'load_balancers': {'b': {}}, 'more': None}]
        self.asker.request()
        self.assertEqual([{'a': {}, 'b': {}}], self.answers)
        self.assertEqual(
            [mock.call('host', None, None), mock.call('host', 'a', None)],
            self.controller.history.call_args_list)

    def test_failed_request_is_repeated_until_it_is_too_late(self):
        def fails(*_arguments):
            self.is_late = self.controller.history.call_count == 3
            raise oslo_messaging.MessagingTimeout()
        self.controller.history.side_effect = fails
        self.asker.request()
        self.assertEqual(3, self.controller.history.call_count)
        self.assertEqual([], self.answers)
        self.without.assert_called_once_with()

    def test_controller_without_history_is_asked_once(self):
        self.controller.history.side_effect = (
            oslo_messaging.UnsupportedVersion('1.0'))
        self.asker.request()
        self.assertEqual(1, self.controller.history.call_count)
        self.without.assert_called_once_with()

    def test_malformed_answer_is_no_answer(self):
        for answer in (None, {}, {'load_balancers': {}, 'more': 7},
                       {'load_balancers': {'lb': {'pool': [
                           {'members': {'m': 257}, 'slots': 5, 'age': 1}]}},
                        'more': None},
                       {'load_balancers': {}, 'more': 'a'}):
            self.is_late = True
            self.controller.history.side_effect = None
            self.controller.history.return_value = answer
            self.asker.request()
        self.assertEqual([], self.answers)
        self.assertEqual(5, self.without.call_count)

    def run_until(self, number, has_state=True):
        """Run the thread until it has made so many calls."""
        asker = histories.Asker(
            self.controller, 'host', self.answers.append, lambda: True,
            self.without, has_state)

        def answers(host, after, ids):
            if self.controller.history.call_count == number:
                asker.stop()
            return {'load_balancers': {key: {} for key in ids or ('all',)},
                    'more': None}
        self.controller.history.side_effect = answers
        asker.ask({'b', 'a'})
        asker.run()

    def test_load_balancers_that_are_placed_here_later_are_asked_for(self):
        self.run_until(1)
        self.assertEqual([{'a': {}, 'b': {}}], self.answers)
        self.without.assert_not_called()

    def test_node_without_state_asks_for_everything_first(self):
        self.run_until(2, has_state=False)
        self.assertEqual([{'all': {}}, {'a': {}, 'b': {}}], self.answers)

    def test_node_that_forwards_packets_does_not_ask_for_ever(self):
        self.is_late = True
        self.controller.history.side_effect = oslo_messaging.MessagingTimeout
        self.asker.request(['a'])
        self.assertEqual(histories.TRIES_MAX,
                         self.controller.history.call_count)
        self.without.assert_called_once_with()

    def test_hand_over_ends_with_the_agent(self):
        self.asker.stop()
        self.asker.run()
        self.controller.history.assert_not_called()
