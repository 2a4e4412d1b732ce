# SPDX-License-Identifier: Apache-2.0
"""The driver's connection to the controller: one per process.

Octavia builds a new driver object for each request, and gunicorn or uWSGI
may fork after the driver was first loaded. Configuration and transport
therefore live here and are created at first use, and again in a forked child.
"""

import dataclasses
import os
import queue
import threading
import time
from typing import Any
from typing import ClassVar
import uuid

from octavia_lib.api.drivers import exceptions
from oslo_log import log as logging
import oslo_messaging

from octavia_xdp_provider.config import options
from octavia_xdp_provider.contracts import changes
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.driver import bounded_calls
from octavia_xdp_provider.driver import database_clock
from octavia_xdp_provider.driver import octavia_defaults
from octavia_xdp_provider.driver import transactions

LOG = logging.getLogger(__name__)

# Seconds that the background thread waits for one answer.
_BACKGROUND_S = 3
# Transaction ends queued for sending. The controller asks Octavia about ends
# that are not reported.
_ENDS_MAX = 1000


class _Failed(Exception):
    """The controller was reached but could not execute the request."""


class _Controller:
    """The controller as bounded_calls.Peer."""

    def __init__(self, client: rpc.DriverClient,
                 clock: database_clock.DatabaseClock) -> None:
        self._client = client
        self._clock = clock

    def ping(self) -> None:
        self._clock.set(self._client.ping(_BACKGROUND_S))

    def cancel(self, request: str) -> None:
        self._client.cancel(request, _BACKGROUND_S)


class ControllerClient:
    """Configuration, policy and RPC client of this process."""

    _lock = threading.Lock()
    _instance: ClassVar['ControllerClient | None'] = None
    _pid: int | None = None

    def __init__(self) -> None:
        self.conf = options.load()
        self.policy = dataclasses.replace(
            options.api_policy(self.conf),
            octavia_defaults=octavia_defaults.read())
        self._client = rpc.DriverClient(
            rpc.transport(self.conf, rpc.RECONNECT_MAX_S),
            self.conf.upgrade_levels.driver)
        self._clock = database_clock.DatabaseClock()
        self._calls = bounded_calls.BoundedCalls(
            _Controller(self._client, self._clock), (_Failed,))
        transactions.watch()
        self._ends: queue.Queue[tuple[str, bool]] = queue.Queue(_ENDS_MAX)
        self._ends_are_discarded = False
        # A separate thread, so that a broker that is down blocks no request.
        threading.Thread(target=self._report_ends, name='octavia-xdp ends',
                         daemon=True).start()

    @classmethod
    def get(cls) -> 'ControllerClient':
        """Return the instance of this process.

        :raises DriverError: the configuration is unusable.
        """
        with cls._lock:
            if cls._instance is None or cls._pid != os.getpid():
                try:
                    cls._instance = cls()
                except Exception as error:
                    raise exceptions.DriverError(
                        user_fault_string='The xdp provider is not '
                        'configured correctly; nothing was changed.',
                        operator_fault_string=f'{error}') from error
                cls._pid = os.getpid()
            return cls._instance

    @classmethod
    def forget(cls) -> None:
        """Drop the instance: a forked child has none of its parent's
        threads, and one of them may have held the lock during the fork."""
        cls._lock = threading.Lock()
        cls._instance = None

    def check_answers(self) -> None:
        """:raises DriverError: the controller is known not to answer."""
        try:
            self._calls.check()
        except bounded_calls.Unanswered as error:
            raise self._unanswered(error) from error

    def change(self, change: changes.Change) -> None:
        """Send a change to the controller and wait for its answer.

        Returns within ``[driver] request_timeout`` even if the broker is
        down.

        :raises UnsupportedOptionError: the change breaks a rule that spans
            objects.
        :raises Conflict: another load balancer has the VIP.
        :raises DriverError: the controller did not answer or failed. The
            API rolls its own transaction back, and the change is not and
            will not be executed.
        """
        request = str(uuid.uuid4())
        transaction = transactions.current()
        limit_s = self.conf.driver.request_timeout
        end = time.monotonic() + limit_s
        try:
            answer = self._calls.call(
                lambda: self._request(change, request, end,
                                      transaction is not None), limit_s,
                request)
        except bounded_calls.Unanswered as error:
            raise self._unanswered(error) from error
        except _Failed as error:
            raise exceptions.DriverError(
                user_fault_string='The xdp provider could not store the '
                'change; nothing was changed.',
                operator_fault_string='octavia-xdp-controller: '
                f'{error}') from error
        self._raise_refusal(answer)
        if transaction is not None:
            transaction.on_end(
                lambda committed: self._queue_end(request, committed))
        LOG.debug('Controller stored %s of %s as request %s.',
                  change['action'], change['object'], request)

    def _queue_end(self, request: str, committed: bool) -> None:
        """Queue the end of Octavia's transaction, in Octavia's thread."""
        try:
            self._ends.put_nowait((request, committed))
            self._ends_are_discarded = False
        except queue.Full:
            if not self._ends_are_discarded:
                LOG.warning('%s ends of transactions wait for the xdp '
                            'provider\'s controller: further ones are not '
                            'reported, and controllers find them out from '
                            'Octavia\'s API.', _ENDS_MAX)
            self._ends_are_discarded = True

    def _report_ends(self) -> None:
        while True:
            request, committed = self._ends.get()
            try:
                self._client.ended(request, committed)
            except Exception as error:
                LOG.debug('The end of request %s was not sent: %s', request,
                          error)

    def _request(self, change: changes.Change, request: str, end: float,
                 reports_end: bool) -> messages.ChangeAnswer:
        """Ask in a bounded call's thread, which may have been abandoned."""
        try:
            return self._ask(change, request, end, reports_end)
        except (oslo_messaging.RemoteError,
                oslo_messaging.UnsupportedVersion) as error:
            raise _Failed(self._describe(error)) from error

    def _describe(self, error: Any) -> str:
        if rpc.is_unsupported_version(error):
            return ('It does not support version '
                    f'{self.conf.upgrade_levels.driver} of the driver API. '
                    f'{rpc.pin("driver", rpc.DRIVER_VERSIONS, "host")}')
        return f'{error.exc_type}: {error.value}'

    def _ask(self, change: changes.Change, request: str, end: float,
             reports_end: bool) -> messages.ChangeAnswer:
        now = self._clock.now()
        if now is None:
            now = self._client.ping(end - time.monotonic())
            self._clock.set(now)
        remaining_s = end - time.monotonic()
        if remaining_s <= 0:
            raise bounded_calls.Unanswered('the time is over')
        answer = self._client.change(change, request, now + remaining_s,
                                     remaining_s, reports_end)
        self._clock.set(answer['now'])
        return answer

    def _unanswered(self, error: Exception) -> exceptions.DriverError:
        return exceptions.DriverError(
            user_fault_string='The xdp provider\'s controller did not '
            'answer; nothing was changed, try again later.',
            operator_fault_string='octavia-xdp-controller did not answer '
            f'({error}). Check that it and its database run, and that both '
            'it and this host reach the message broker.')

    @staticmethod
    def _raise_refusal(answer: messages.ChangeAnswer) -> None:
        if 'refused' in answer:
            detail = answer.get('detail')
            raise exceptions.UnsupportedOptionError(
                user_fault_string=answer['refused'],
                operator_fault_string=answer['refused']
                + (f' ({detail})' if detail else ''))
        if 'conflict' in answer:
            raise exceptions.Conflict(
                user_fault_string=answer['conflict'],
                operator_fault_string=answer['conflict'])
        if 'error' in answer:
            raise exceptions.DriverError(
                user_fault_string='The xdp provider could not store the '
                'change; nothing was changed.',
                operator_fault_string=answer['error'])


os.register_at_fork(after_in_child=ControllerClient.forget)
