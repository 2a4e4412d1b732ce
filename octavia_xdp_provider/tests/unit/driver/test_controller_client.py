# SPDX-License-Identifier: Apache-2.0
"""Requests of the driver's process to the controller, and forks of it."""

import os
import queue
import threading
from unittest import mock

import fixtures
from octavia_lib.api.drivers import exceptions
import oslo_messaging
import sqlalchemy as sa
from sqlalchemy import orm

from octavia_xdp_provider.config import options
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.driver import controller_client
from octavia_xdp_provider.driver import database_clock
from octavia_xdp_provider.tests.unit import base

CHANGE = {'object': 'member', 'action': 'delete', 'object_id': 'm',
          'pool_id': 'p'}


class Controller:
    """Stands in for rpc.DriverClient."""

    def __init__(self):
        self.now = 1000.0
        self.changes = []
        self.reports_end = None
        self.ends = queue.Queue()
        self.answer = {'accepted': 'x'}

    def ping(self, timeout_s):
        return self.now

    def change(self, change, request, deadline, timeout_s, reports_end=False):
        self.changes.append((change, request, deadline))
        self.reports_end = reports_end
        if isinstance(self.answer, Exception):
            raise self.answer
        return dict(self.answer, now=self.now)

    def cancel(self, request, timeout_s):
        pass

    def ended(self, request, committed):
        self.ends.put((request, committed))


class TestControllerClient(base.TestCase):

    def setUp(self):
        super().setUp()
        path = self.create_tempfiles([(
            'test', '[DEFAULT]\ntransport_url = fake://\n'
            '[driver]\nrequest_timeout = 20\n')], ext='.conf')[0]
        self.useFixture(fixtures.EnvironmentVariable(
            options.CONFIG_ENVIRONMENT_VARIABLE, path))
        self.controller = Controller()
        self.enterContext(mock.patch.object(
            rpc, 'DriverClient', lambda transport, version: self.controller))
        controller_client.ControllerClient.forget()
        self.addCleanup(controller_client.ControllerClient.forget)
        self.client = controller_client.ControllerClient.get()

    def test_ends_beyond_the_queue_are_logged_once(self):
        self.client._ends = queue.Queue(1)  # that nobody reads
        with mock.patch.object(controller_client.LOG, 'warning') as log:
            for _ in range(4):
                self.client._queue_end('request', True)
        log.assert_called_once()

    def test_each_change_has_a_request_id_and_a_deadline(self):
        """Deadlines are in the database's time, not in the host's."""
        self.client.change(CHANGE)
        self.controller.now = 5000.0
        self.client.change(CHANGE)
        self.client.change(CHANGE)
        requests = {request for _, request, _ in self.controller.changes}
        self.assertEqual(3, len(requests))
        deadlines = [row[2] for row in self.controller.changes]
        self.assertTrue(1000 < deadlines[0] < 1021, deadlines)
        self.assertTrue(1000 < deadlines[1] < 1041, deadlines)
        self.assertTrue(5000 < deadlines[2] < 5040, deadlines)

    def test_end_of_callers_transaction_is_reported(self):
        engine = sa.create_engine('sqlite://')
        self.addCleanup(engine.dispose)
        for committed in (True, False):
            with orm.Session(engine) as session:
                session.execute(sa.text('SELECT 1'))
                self.client.change(CHANGE)
                self.assertTrue(self.controller.reports_end)
                self.assertTrue(self.controller.ends.empty())
                session.commit() if committed else session.rollback()
            self.assertEqual((self.controller.changes[-1][1], committed),
                             self.controller.ends.get(timeout=60))

    def test_end_is_not_announced_without_a_transaction(self):
        self.client.change(CHANGE)
        self.assertFalse(self.controller.reports_end)

    def test_end_of_refused_change_is_not_reported(self):
        engine = sa.create_engine('sqlite://')
        self.addCleanup(engine.dispose)
        with orm.Session(engine) as session:
            session.execute(sa.text('SELECT 1'))
            self.controller.answer = {'refused': 'x'}
            self.assertRaises(exceptions.UnsupportedOptionError,
                              self.client.change, CHANGE)
            self.controller.answer = {'accepted': 'x'}
            self.client.change(CHANGE)
            session.commit()
        # Ends are sent in order, so the refused change had none.
        self.assertEqual(self.controller.changes[-1][1],
                         self.controller.ends.get(timeout=60)[0])

    def test_answers_become_octavias_exceptions(self):
        for answer, expected in (
                ({'refused': 'x'}, exceptions.UnsupportedOptionError),
                ({'conflict': 'x'}, exceptions.Conflict),
                ({'error': 'x'}, exceptions.DriverError),
                (oslo_messaging.RemoteError('Broken', 'x'),
                 exceptions.DriverError)):
            self.controller.answer = answer
            self.assertRaises(expected, self.client.change, CHANGE)
        self.client.check_answers()

    def test_details_of_refusal_are_for_the_operator(self):
        self.controller.answer = {'refused': 'no room', 'detail': 'a is full'}
        error = self.assertRaises(exceptions.UnsupportedOptionError,
                                  self.client.change, CHANGE)
        self.assertEqual(('no room', 'no room (a is full)'), (
            error.user_fault_string, error.operator_fault_string))

    def test_unreachable_controller_is_waited_for_once(self):
        self.controller.answer = oslo_messaging.MessagingTimeout('x')
        with mock.patch.object(self.controller, 'ping',
                               side_effect=OSError('x')):
            self.client._clock.set(1000.0)
            error = self.assertRaises(exceptions.DriverError,
                                      self.client.change, CHANGE)
            self.assertIn('nothing was changed', error.user_fault_string)
            self.controller.answer = {'accepted': 'x'}
            self.assertRaises(exceptions.DriverError,
                              self.client.change, CHANGE)
            self.assertRaises(exceptions.DriverError,
                              self.client.check_answers)
            self.assertEqual(1, len(self.controller.changes))

    def test_forked_child_creates_its_own_client(self):
        """Even if another thread held the lock during the fork."""
        held = threading.Event()
        leave = threading.Event()

        def hold():
            with controller_client.ControllerClient._lock:
                held.set()
                leave.wait(60)
        thread = threading.Thread(target=hold)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(leave.set)
        held.wait(60)
        child = os.fork()
        if child == 0:
            exit_code = 1
            try:
                client = controller_client.ControllerClient.get()
                client.change(CHANGE)
                exit_code = 0 if client is not self.client else 2
            finally:
                os._exit(exit_code)
        self.assertEqual(0, os.waitstatus_to_exitcode(
            os.waitpid(child, 0)[1]))


class TestDatabaseClock(base.TestCase):

    def test_clock_advances_from_the_last_answer(self):
        clock = database_clock.DatabaseClock()
        self.assertIsNone(clock.now())
        with mock.patch.object(database_clock, '_elapsed') as elapsed:
            elapsed.return_value = 7.0
            clock.set(1000.0)
            elapsed.return_value = 10.0
            self.assertEqual(1003.0, clock.now())

    def test_old_answer_expires(self):
        clock = database_clock.DatabaseClock()
        with mock.patch.object(database_clock, '_elapsed') as elapsed:
            elapsed.return_value = 7.0
            clock.set(1000.0)
            elapsed.return_value = 7.0 + 601
            self.assertIsNone(clock.now())
