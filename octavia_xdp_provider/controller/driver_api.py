# SPDX-License-Identifier: Apache-2.0
"""The driver's calls: store what is pending, answer at once."""

import uuid

from oslo_log import log as logging
import oslo_messaging
import prometheus_client

from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import rpc
from octavia_xdp_provider.common import validation
from octavia_xdp_provider.controller import metrics
from octavia_xdp_provider.controller.scheduler import cluster as clusters

LOG = logging.getLogger(__name__)

# Seconds in which nodes that were notified report.
_NODES_S = 1.0


class DriverEndpoint:
    """RPC endpoint of the driver."""

    target = oslo_messaging.Target(namespace=rpc.DRIVER_NAMESPACE,
                                   version=rpc.DRIVER_VERSION)

    def __init__(self, store, stored, changed, notify, counted=None):
        """:param stored: called with whether its end is told, after each
            change that is pending now.

        :param changed: called with ids of load balancers that were marked.
        :param notify: called with hosts that shall fetch.
        :param counted: metrics.Metrics.
        """
        self._store = store
        self._stored = stored
        self._changed = changed
        self._notify = notify
        self._metrics = counted or metrics.Metrics(
            prometheus_client.CollectorRegistry())

    def ping(self, context):
        """Whether the controller could do something, and what time it is."""
        return {'now': self._store.now()}

    def cancel(self, context, request):
        """Take back a change that nobody waits for any more."""
        load_balancer_id = self._store.cancel(request)
        if load_balancer_id is not None:
            LOG.info('Request %s for load balancer %s was taken back.',
                     request, load_balancer_id)
            self._changed([load_balancer_id])

    def ended(self, context, request, committed):
        """Octavia's transaction around a change has ended.

        The driver is believed as it is with the change: nobody asks Octavia.
        """
        if not committed:
            self.cancel(context, request)
            return
        load_balancer_id = self._store.owner_of(request)
        if load_balancer_id is None:
            return
        generation = self._store.promote(load_balancer_id, request,
                                         _NODES_S)
        if generation is None:
            # A worker was faster, or it is not held: then one finds out.
            return
        LOG.info('Load balancer %s: Octavia has committed request %s, '
                 'generation %s.', load_balancer_id, request, generation)
        self._notify(self._store.hosts_of(
            load_balancer_id, [one.value for one in clusters.HEARD]))
        self._changed([load_balancer_id])

    def change(self, context, change, request=None, deadline=None,
               tells_end=False):
        """Store a change as pending, and answer what became of it.

        :param request: left out by drivers of version 1.0, like deadline.
        :param deadline: in the database's time; nothing is done after it.
        :param tells_end: left out by drivers of version 1.1.
        :returns: a messages.ChangeAnswer. Nothing is stored unless it was
            accepted.
        """
        request = request or str(uuid.uuid4())
        answer = self._answer(change, request, deadline, tells_end)
        self._metrics.answered(next(iter(answer)))
        return dict(answer, now=self._store.now())

    def _answer(self, change, request, deadline, tells_end):
        try:
            validation.check_change(change)
            load_balancer_id = self._store.request(change, request, deadline,
                                                   tells_end)
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
        self._metrics.accepted(load_balancer_id)
        self._stored(tells_end)
        return {'accepted': request}
