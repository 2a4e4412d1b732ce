# SPDX-License-Identifier: Apache-2.0
"""Passes of the worker, and heartbeats."""

import errno
import threading
import time
from unittest import mock

import fixtures
import oslo_messaging
import prometheus_client

from octavia_xdp_provider.agent import metrics
from octavia_xdp_provider.agent import reconcile
from octavia_xdp_provider.agent import worker
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.process.agents import heartbeat
from octavia_xdp_provider.process.agents import wanted
from octavia_xdp_provider.tests.unit import base

WANTED = wanted.Wanted(5, {'a': (3, {})})


class TestWorker(base.TestCase):

    def setUp(self):
        super().setUp()
        self.reconciler = mock.Mock(problems=[], held={})
        self.reconciler.leaving_s.return_value = None
        self.datapath = mock.Mock()
        self.ended = mock.Mock()
        self.notified = mock.Mock()
        self.registry = prometheus_client.CollectorRegistry()
        self.metrics = metrics.Metrics(self.registry)
        self.come_round = mock.Mock()
        self.worker = worker.Worker(
            self.reconciler, mock.Mock(
                datapath=self.datapath,
                uplinks=mock.Mock(ready=frozenset({4}))),
            self.metrics, self.notified, self.ended, self.come_round)

    def run_until(self, has_ended):
        """Run the worker in a thread until a function has waited for it."""
        thread = threading.Thread(target=self.worker.run)
        thread.start()
        self.assertTrue(has_ended())
        self.worker.stop()
        thread.join()

    def test_worker_ends_when_another_library_took_over(self):
        self.datapath.info.side_effect = datapath.DatapathError(
            errno.ESTALE, 'taken over')
        self.worker.run()
        self.ended.assert_called_once_with()
        self.assertTrue(self.worker.is_stale)

    def test_worker_applies_wanted_state_and_notifies(self):
        result = reconcile.PassResult(WANTED, {})
        self.reconciler.reconcile.return_value = result
        self.worker.want(WANTED)
        self.run_until(lambda: self.worker.wait_for(WANTED, 30))
        self.assertIs(result, self.worker.result)
        self.notified.assert_called_with()

    def test_leaving_services_get_a_pass_in_time(self):
        again = threading.Event()

        def reconcile_once(*arguments):
            if self.reconciler.reconcile.call_count == 1:
                self.reconciler.leaving_s.return_value = 0.0
            else:
                self.reconciler.leaving_s.return_value = None
                again.set()
            return reconcile.PassResult(WANTED, {})
        self.reconciler.reconcile.side_effect = reconcile_once
        self.useFixture(fixtures.MonkeyPatch(
            'octavia_xdp_provider.agent.worker.FULL_PASS_S', 3600.0))
        self.worker.want(WANTED)
        self.run_until(lambda: again.wait(30))

    def test_each_member_whose_health_changes_is_counted(self):
        def held(**members):
            return {'a': {'generation': 3, 'error': None, 'announced': True,
                          'members': members}}
        for some in (None, held(m='unknown'), held(m='up', n='up'),
                     held(m='down', n='up'), held(m='down')):
            self.metrics.held(self.worker._notified, some or {})
            self.worker._notified = some
        self.assertEqual((1, 1, 0), tuple(self.registry.get_sample_value(
            'octavia_xdp_agent_health_transitions_total', {'to': state})
            for state in ('up', 'down', 'unknown')))

    def test_pass_that_fails_is_tried_again(self):
        self.reconciler.reconcile.side_effect = [
            OSError('once'), reconcile.PassResult(WANTED, {})]
        self.worker.want(WANTED)
        with mock.patch.object(worker.Worker, 'tick_s', 0.01):
            self.run_until(lambda: self.worker.wait_for(WANTED, 30))
        self.assertEqual((1, 1), tuple(self.registry.get_sample_value(
            f'octavia_xdp_agent_{name}') for name in (
                'failed_passes_total', 'pass_seconds_count')))
        self.assertLessEqual(2, self.come_round.call_count)

    def test_nothing_is_removed_before_the_wanted_state_is_known(self):
        self.reconciler.announce.side_effect = (
            lambda ready: self.worker.stop())
        self.worker.run()
        self.reconciler.announce.assert_called_once_with(frozenset())
        self.reconciler.reconcile.assert_not_called()


class TestHeartbeat(base.TestCase):

    def test_heartbeats_continue_after_an_error(self):
        client = mock.Mock()
        enough = threading.Event()
        calls = iter([oslo_messaging.MessageDeliveryFailure('no'),
                      ValueError('no'), None])

        def send(host):
            error = next(calls, None)
            if error is None:
                enough.set()
                return
            raise error
        client.heartbeat.side_effect = send
        beat = heartbeat.Heartbeat('host', client)
        with mock.patch.object(heartbeat, 'HEARTBEAT_S', 0.01):
            beat.start()
            self.assertTrue(enough.wait(30))
            beat.stop()

    def test_report_is_a_sign_of_life_as_well(self):
        client, has_sent = mock.Mock(), threading.Event()
        reports = []

        def reported_at():
            if len(reports) < 20:
                reports.append(time.monotonic())
            return reports[19] if len(reports) > 19 else reports[-1]

        def send(host):
            if not has_sent.is_set():
                reports.append('heartbeat')
                has_sent.set()
        client.heartbeat.side_effect = send
        beat = heartbeat.Heartbeat('host', client, reported_at=reported_at)
        with mock.patch.object(heartbeat, 'HEARTBEAT_S', 0.01):
            beat.start()
            self.assertTrue(has_sent.wait(60))
            beat.stop()
        self.assertEqual('heartbeat', reports[20])
