# SPDX-License-Identifier: Apache-2.0
"""The driver's calls: store what is pending, answer at once."""

import uuid

from oslo_log import log as logging
import oslo_messaging

from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import rpc
from octavia_xdp_provider.common import validation

LOG = logging.getLogger(__name__)


class DriverEndpoint:
    """RPC endpoint of the driver."""

    target = oslo_messaging.Target(namespace=rpc.DRIVER_NAMESPACE,
                                   version=rpc.DRIVER_VERSION)

    def __init__(self, store, changed):
        """:param changed: called with the load balancer's id after each
        stored change."""
        self._store = store
        self._changed = changed

    def ping(self, context):
        """Whether the controller could do something, and what time it is."""
        return {'now': self._store.now()}

    def cancel(self, context, request):
        """Take back a change that nobody waits for any more."""
        load_balancer_id = self._store.cancel(request)
        if load_balancer_id is not None:
            LOG.info('Request %s for load balancer %s was taken back.',
                     request, load_balancer_id)
            self._changed(load_balancer_id)

    def change(self, context, change, request=None, deadline=None):
        """Store a change as pending, and answer what became of it.

        :param request: left out by drivers of version 1.0, like deadline.
        :param deadline: in the database's time; nothing is done after it.
        :returns: a messages.ChangeAnswer. Nothing is stored unless it was
            accepted.
        """
        request = request or str(uuid.uuid4())
        return dict(self._answer(change, request, deadline),
                    now=self._store.now())

    def _answer(self, change, request, deadline):
        try:
            validation.check_change(change)
            load_balancer_id = self._store.request(change, request, deadline)
        except errors.Refused as error:
            return {'refused': str(error)}
        except errors.Conflict as error:
            return {'conflict': str(error)}
        except errors.TooLate as error:
            LOG.warning('Change %s of %s %s is not done: %s.',
                        change['action'], change['object'],
                        change['object_id'], error)
            return {'error': f'The request is not done: {error}.'}
        except errors.UnknownObject as error:
            LOG.error('Change %s of %s %s names what is not stored: %s',
                      change['action'], change['object'],
                      change['object_id'], error)
            return {'error': f'The controller does not know {error}.'}
        except Exception as error:
            LOG.exception('Change %s of %s %s could not be stored.',
                          change['action'], change['object'],
                          change['object_id'])
            return {'error': f'{type(error).__name__}: {error}'}
        LOG.info('Stored %s of %s %s: pending at load balancer %s.',
                 change['action'], change['object'], change['object_id'],
                 load_balancer_id)
        self._changed(load_balancer_id)
        return {'accepted': request}
