# SPDX-License-Identifier: Apache-2.0

from unittest import mock

from octavia_xdp_provider.controller import octavia
from octavia_xdp_provider.controller import statistics
from octavia_xdp_provider.tests.unit import base


class TestStatistics(base.TestCase):

    def setUp(self):
        super().setUp()
        self.store = mock.Mock()
        self.octavia = mock.Mock()
        self.statistics = statistics.Statistics(self.store, self.octavia)

    def sent(self, sums):
        self.octavia.set_statistics.reset_mock()
        self.store.statistics.return_value = sums
        self.statistics.send()
        return [call.args[0] for call
                in self.octavia.set_statistics.call_args_list]

    def test_only_changes_are_sent(self):
        self.assertEqual([], self.sent({}))
        self.assertEqual([{'a': (1, 1), 'b': (2, 2)}],
                         self.sent({'a': (1, 1), 'b': (2, 2)}))
        self.assertEqual([{'b': (3, 2)}],
                         self.sent({'a': (1, 1), 'b': (3, 2)}))
        self.assertEqual([], self.sent({'a': (1, 1), 'b': (3, 2)}))

    def test_what_was_not_accepted_is_sent_again(self):
        self.octavia.set_statistics.side_effect = octavia.OctaviaUnavailable
        self.sent({'a': (1, 1)})
        self.octavia.set_statistics.side_effect = None
        self.assertEqual([{'a': (1, 1)}], self.sent({'a': (1, 1)}))
