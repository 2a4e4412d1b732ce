# SPDX-License-Identifier: Apache-2.0
"""The driver's connection to the controller: one per process.

Octavia builds a new driver object for each request, and gunicorn or uWSGI
may fork after the driver was first loaded. Configuration and transport
therefore live here, made at first use and again in a forked child.
"""

import os
import threading

from octavia_lib.api.drivers import exceptions
from oslo_log import log as logging

from octavia_xdp_provider.common import options
from octavia_xdp_provider.common import rpc

LOG = logging.getLogger(__name__)


class ControllerClient:
    """Configuration, allowed addresses and RPC client of this process."""

    _lock = threading.Lock()
    _instance = None
    _pid = None

    def __init__(self):
        self.conf = options.load()
        self.address_policy = options.allowed_addresses(self.conf)
        self._client = rpc.DriverClient(rpc.transport(self.conf),
                                        self.conf.driver.request_timeout)

    @classmethod
    def get(cls):
        """The instance of this process.

        :raises DriverError: the configuration cannot be used.
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

    def change(self, change):
        """Hand a change to the controller and wait for its word.

        :raises UnsupportedOptionError: it breaks a rule that spans objects.
        :raises Conflict: another load balancer has the VIP.
        :raises DriverError: the controller did not answer or failed; the
            API rolls its own transaction back, and the controller undoes
            what Octavia never commits.
        """
        try:
            answer = self._client.change(change)
        except rpc.TRANSPORT_ERRORS as error:
            raise exceptions.DriverError(
                user_fault_string='The xdp provider\'s controller did not '
                'answer; nothing was changed, try again later.',
                operator_fault_string='octavia-xdp-controller did not answer '
                f'in {self.conf.driver.request_timeout} s '
                f'({type(error).__name__}: {error}); is it running and does '
                'it reach the message broker?') from error
        if 'refused' in answer:
            raise exceptions.UnsupportedOptionError(
                user_fault_string=answer['refused'],
                operator_fault_string=answer['refused'])
        if 'conflict' in answer:
            raise exceptions.Conflict(
                user_fault_string=answer['conflict'],
                operator_fault_string=answer['conflict'])
        if 'error' in answer:
            raise exceptions.DriverError(
                user_fault_string='The xdp provider could not store the '
                'change; nothing was changed.',
                operator_fault_string=answer['error'])
        LOG.debug('Controller stored %s of %s as generation %s.',
                  change['action'], change['object'],
                  answer.get('generation'))
