# SPDX-License-Identifier: Apache-2.0
"""The link's reports, and when it fetches."""

import errno
import tempfile
import threading
import time
from unittest import mock

import fixtures
import oslo_messaging

from octavia_xdp_provider.agent import link
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.process.agents import link as common_link
from octavia_xdp_provider.process.agents import wanted
from octavia_xdp_provider.tests.unit.agent import linking
from octavia_xdp_provider.tests.unit.agent.linking import held


class TestPeersOfNat(linking.LinkTestCase):

    def setUp(self):
        super().setUp()
        self.peers = [{'host': 'host', 'address': '198.51.100.0'}]
        self.controller.nat_peers.side_effect = lambda host: {
            'peers': self.peers, 'moving': True}
        self.nat = mock.Mock(is_wanted=True)
        self.link = link.Link(self.ends, 3600, nat=self.nat)
        self.now = 100.0
        self.enterContext(mock.patch.object(
            link.time, 'monotonic', lambda: self.now))

    def test_peers_are_requested_periodically(self):
        self.link.ask_more()
        self.link.ask_more()
        self.nat.peers.want.assert_called_once_with(
            peers=self.peers, moving=True)
        self.worker.wake.assert_called_once_with()
        self.now += link.PEERS_S
        self.nat.peers.want.return_value = False
        self.link.ask_more()
        self.assertEqual(2, self.controller.nat_peers.call_count)
        self.worker.wake.assert_called_once_with()

    def test_malformed_state_changes_nothing(self):
        self.peers = [{'host': 'host', 'address': 'nowhere'}]
        self.assertRaises(errors.Refused, self.link.ask_more)
        self.nat.peers.want.assert_not_called()

    def test_node_without_pools_does_not_ask(self):
        for nat in mock.Mock(is_wanted=False), None:
            link.Link(self.ends, 3600, nat=nat).ask_more()
        self.controller.nat_peers.assert_not_called()

    def test_peers_are_requested_between_fetches(self):
        """Others have to know in time what a node asks for so often."""
        waits = self.loop(lambda: self.link.ask_more_at)
        self.assertEqual([link.PEERS_S] * 2, waits[:2])
        self.assertEqual(3, self.controller.nat_peers.call_count)
        self.fetcher.fetch.assert_called_once_with()

    def test_controller_that_does_not_answer_is_not_asked_more_often(self):
        self.controller.nat_peers.side_effect = OSError('away')
        self.assertEqual([3600], self.loop(lambda: self.now)[:1])

    def loop(self, wake_at):
        """Run the link for three rounds, without time passing but by waits.

        :param wake_at: says when the next round begins.
        :returns: the seconds that it would have waited for.
        """
        waits = []

        def wait(seconds):
            waits.append(seconds)
            self.now = wake_at()
            if len(waits) == 3:
                self.link.stop()

        self.enterContext(mock.patch.object(
            common_link.time, 'monotonic', lambda: self.now))
        self.enterContext(mock.patch.object(common_link, 'RETRY_S', 0))
        self.link._talk = mock.Mock(wait=wait)
        self.link.run()
        return waits


class TestReports(linking.LinkTestCase):

    def test_only_what_has_changed_is_reported(self):
        self.assertEqual({'a': held()}, self.report()['held'])
        report = self.report()
        self.assertEqual(({}, [], None), (report['held'], report['gone'],
                                          report['state']))
        self.worker.held = {'a': held(state='down'), 'b': held()}
        self.assertEqual(self.worker.held, self.report()['held'])
        self.worker.held = {'b': held()}
        report = self.report()
        self.assertEqual(({}, ['a']), (report['held'], report['gone']))

    def test_unchanged_state_is_not_reported(self):
        self.report()
        self.link._report_news()
        self.assertEqual(1, len(self.reports))
        self.fetcher.wanted = self.fetcher.wanted._replace(as_of=8)
        self.link._turn()
        self.assertEqual(1, len(self.reports))
        # Removals are confirmed as of a generation.
        self.fetcher.removed_as_of = 8
        self.link._turn()
        self.assertEqual([5, 8], [report['as_of'] for report in self.reports])
        with mock.patch.object(common_link.time, 'monotonic',
                               return_value=float('inf')):
            self.link._turn()
        self.assertEqual(3, len(self.reports))

    def test_end_of_a_pass_causes_no_fetch(self):
        taken = threading.Semaphore(0)
        taking = self.controller.report.side_effect

        def report(*arguments):
            answer = taking(*arguments)
            taken.release()
            return answer
        self.controller.report.side_effect = report
        self.run_in_thread(self.link)
        self.assertTrue(taken.acquire(timeout=60))
        self.worker.held = {'a': held(state='down')}
        self.link.report_soon()
        self.assertTrue(taken.acquire(timeout=60))
        self.fetcher.fetch.assert_called_once_with()
        self.worker.held = {'a': held()}
        self.link.wake()
        self.assertTrue(taken.acquire(timeout=60))
        self.assertEqual(2, self.fetcher.fetch.call_count)

    def test_received_pages_cause_no_fetch(self):
        self.report()
        self.link._turn()
        self.fetcher.receive.side_effect = [['a'], []]
        self.link.wake(5, 'one')
        self.link.wake(6, 'other')
        self.link._receive()
        self.assertEqual([mock.call(5, 'one'), mock.call(6, 'other')],
                         self.fetcher.receive.call_args_list)
        self.fetcher.fetch.assert_called_once_with()
        self.assertEqual({'a': held()}, self.reports[-1]['held'])

    def test_unusable_page_makes_the_link_fetch(self):
        self.link._turn()
        self.fetcher.receive.return_value = None
        self.link.wake(5, 'one')
        self.link.wake(6, 'other')
        self.link._receive()
        self.fetcher.receive.assert_called_once_with(5, 'one')
        self.assertEqual(2, self.fetcher.fetch.call_count)

    def test_too_many_waiting_pages_make_the_link_fetch(self):
        self.link._turn()
        self.assertFalse(self.link._ask)
        for number in range(common_link.PAGES_MAX + 1):
            self.assertFalse(self.link._ask)
            self.link.wake(number, 'page')
        self.assertTrue(self.link._ask)

    def test_mentioned_load_balancers_are_reported_again(self):
        self.report()
        self.fetcher.fetch.return_value = ['a']
        self.link._turn()
        self.assertEqual({'a': held()}, self.reports[-1]['held'])

    def test_time_of_the_last_report_is_known(self):
        self.assertEqual(float('-inf'), self.link.reported_at)
        before = time.monotonic()
        self.report()
        self.assertLessEqual(before, self.link.reported_at)
        last = self.link.reported_at
        self.link._report_news()  # nothing
        self.assertEqual(last, self.link.reported_at)

    def test_large_report_is_sent_in_pages(self):
        self.worker.held = {f'lb{number}': held() for number in range(450)}
        self.link._turn()
        self.assertEqual([(200, False), (200, False), (50, True)], [
            (len(report['held']), report['complete'])
            for report in self.reports])

    def test_change_is_reported_between_pages_of_a_large_report(self):
        before = {f'lb{number}': held() for number in range(450)}
        self.worker.held = before
        done = threading.Event()
        order = []

        def fetch():
            order.append('fetch')
            if len(order) > 1:
                self.worker.held = {**before, 'new': held()}
            return []

        def report(*arguments):
            answer = self.take(*arguments)
            order.append(sorted(arguments[-1]['held'].keys() & {'new'}))
            if len(order) == 2:
                self.link.wake()
            if arguments[-1]['complete']:
                done.set()
            return answer
        self.fetcher.fetch.side_effect = fetch
        self.controller.report.side_effect = report
        self.run_in_thread(self.link)
        self.assertTrue(done.wait(60))
        self.assertEqual(['fetch', [], 'fetch', ['new'], []], order)
        self.assertEqual(self.worker.held, {
            key: state for report in self.reports
            for key, state in report['held'].items()})

    def test_report_is_as_of_the_applied_generation(self):
        self.assertEqual(5, self.report()['as_of'])
        self.fetcher.wanted = self.fetcher.wanted._replace(as_of=8)
        self.assertEqual(8, self.report()['as_of'])
        self.fetcher.wanted = wanted.Wanted(9, {'a': (9, {})})
        self.assertEqual(5, self.report()['as_of'])

    def test_rejected_epoch_makes_the_node_report_everything(self):
        self.report()
        answers = iter([{'taken': False, 'epoch': 70, 'seq': 2}])
        taking = self.controller.report.side_effect
        epochs = []

        def report(host, epoch, seq, report):
            epochs.append((epoch, seq))
            return next(answers, None) or taking(host, epoch, seq, report)
        self.controller.report.side_effect = report
        self.assertEqual({'a': held()}, self.report()['held'])
        self.assertEqual([(1, 2), (71, 1)], epochs)

    def test_nothing_is_reported_before_the_first_pass(self):
        self.worker.result = None
        self.link.report()
        self.controller.report.assert_not_called()


class TestProblems(linking.LinkTestCase):

    def test_node_without_space_reports_that_it_cannot_do_its_part(self):
        log = self.useFixture(fixtures.FakeLogger())
        with mock.patch.object(
                tempfile, 'TemporaryFile', side_effect=OSError(
                    errno.ENOSPC, 'No space left on device')):
            first = self.report()
            self.report()
        text = f'{self.directory} cannot be written: No space left on device'
        self.assertEqual({'a': held(error=text, state='unknown')},
                         first['held'])
        self.assertEqual([text], first['state']['problems'])
        self.assertEqual(1, log.output.count(text))
        self.assertEqual({'a': held()}, self.report()['held'])

    def test_file_that_cannot_be_written_is_reported(self):
        self.worker.problems = ['checks cannot be written: no']
        self.assertEqual(
            {'a': held(error='checks cannot be written: no',
                       state='unknown')}, self.report()['held'])

    def test_node_that_can_write_reports_no_problem(self):
        self.assertEqual({'problems': []}, self.report()['state'])

    def failing(self, error):
        """Return the log of two turns that fail with an error."""
        log = self.useFixture(fixtures.FakeLogger())
        self.fetcher.fetch.side_effect = error
        for _ in range(2):
            self.assertFalse(self.link._try(self.link._turn))
        return log.output

    def test_tables_that_cannot_be_read_are_no_silence_of_the_controller(self):
        output = self.failing(datapath.DatapathError(
            errno.EIO, 'the maps are gone'))
        self.assertIn('the maps are gone', output)
        self.assertNotIn('does not answer', output)

    def test_silence_of_the_controller_is_logged_once(self):
        output = self.failing(oslo_messaging.MessagingTimeout('no reply'))
        self.assertEqual(1, output.count('does not answer'))

    def test_older_controller_is_named_with_what_to_do(self):
        error = oslo_messaging.RemoteError(
            'UnsupportedVersion', 'Endpoint does not support RPC version')
        self.assertIn('Upgrade it first', self.link.complain(error))
        with mock.patch.object(rpc, 'NODES_VERSIONS', ('1.0', '1.1', '1.2')):
            self.assertIn('[upgrade_levels] nodes = 1.1 or 1.0 on this node',
                          self.failing(error))

    def test_refusal_of_the_controller_is_logged(self):
        output = self.failing(oslo_messaging.RemoteError(
            'Refused', 'report.as_of'))
        self.assertIn('report.as_of', output)
