# SPDX-License-Identifier: Apache-2.0
"""The driver's RPC calls: store the change as pending and answer at once."""


from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence

from oslo_log import log as logging
import oslo_messaging
import prometheus_client

from octavia_xdp_provider.api import validation
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import changes
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.controller import metrics
from octavia_xdp_provider.controller.scheduler import cluster as clusters
from octavia_xdp_provider.controller.store import bundles
from octavia_xdp_provider.controller.store import limits
from octavia_xdp_provider.controller.store import load_balancers
from octavia_xdp_provider.controller.store import queries

LOG = logging.getLogger(__name__)

# Seconds in which notified nodes report, even if all are busy.
_NODES_S = 3.0


class DriverEndpoint:
    """RPC endpoint of the driver."""

    target = oslo_messaging.Target(namespace=rpc.DRIVER_NAMESPACE,
                                   version=rpc.DRIVER_VERSION)

    def __init__(self, store: queries.Store, stored: Callable[[bool], object],
                 changed: Callable[[Iterable[str]], object],
                 promoted: Callable[[load_balancers.Promoted], object],
                 counted: metrics.Metrics | None = None,
                 sizes: Callable[[], limits.Limits] = lambda: limits.NONE,
                 policy: address_policy.AddressPolicy | None = None,
                 receive: Callable[
                     [changes.Change],
                     tuple[changes.Change, Sequence[bundles.Bundle]]]
                 = lambda change: (change, ())) -> None:
        """:param stored: called after each change that became pending, with
            whether the end of its transaction will be reported.

        :param changed: called with ids of load balancers that were marked.
        :param promoted: called with each committed change
            (store.load_balancers.Promoted).
        :param counted: metrics.Metrics.
        :param sizes: returns the current limits.Limits.
        :param policy: address_policy.AddressPolicy of new members.
        :param receive: see Vault.receive.
        """
        self._store = store
        self._stored = stored
        self._changed = changed
        self._promoted = promoted
        self._sizes = sizes
        self._policy = policy
        self._receive = receive
        self._metrics = counted or metrics.Metrics(
            prometheus_client.CollectorRegistry())

    def ping(self, context: object) -> dict[str, float]:
        """Return the database's time, which shows that it is reachable."""
        return {'now': self._store.database.now()}

    def cancel(self, context: object, request: str) -> None:
        """Cancel a change whose caller has stopped waiting."""
        load_balancer_id = self._store.requests.cancel(request)
        if load_balancer_id is not None:
            LOG.info('Request %s for load balancer %s was cancelled.',
                     request, load_balancer_id)
            self._changed([load_balancer_id])

    def ended(self, context: object, request: str, committed: bool) -> None:
        """Handle the end of Octavia's transaction around a change.

        The driver is trusted as with the change itself, without asking
        Octavia.
        """
        if not committed:
            self.cancel(context, request)
            return
        promoted = self._store.load_balancers.promote_request(
            request, _NODES_S,
            [condition.value for condition in clusters.REACHABLE])
        if promoted is None:
            # A worker was faster, or has to handle it as it is not stored.
            return
        LOG.info('Load balancer %s: Octavia has committed request %s, '
                 'generation %s.', promoted.load_balancer_id, request,
                 promoted.generation)
        self._promoted(promoted)

    def change(self, context: object, change: changes.Change, request: str,
               deadline: float, reports_end: bool) -> messages.ChangeAnswer:
        """Store a change as pending, and answer with the result.

        :param request: a UUID.
        :param deadline: in the database's time; nothing is stored after it.
        :param reports_end: whether ``ended`` follows.
        :returns: a messages.ChangeAnswer. The change is only stored if it is
            accepted.
        """
        answer = self._answer(change, request, deadline, reports_end)
        self._metrics.answered(next(iter(answer)))
        if 'now' not in answer:
            answer['now'] = self._store.database.now()
        return answer

    def _answer(self, change: changes.Change, request: str, deadline: float,
                reports_end: bool) -> messages.ChangeAnswer:
        try:
            validation.check_change(change)
            change, received = self._receive(change)
            stored = self._store.requests.add(change, request, deadline,
                                              reports_end, self._sizes(),
                                              self._policy, received)
        except errors.Refused as error:
            LOG.info('Change %s of %s %s: %s', change['action'],
                     change['object'], change['object_id'],
                     error.for_operator)
            return {'refused': str(error), 'detail': error.detail}
        except errors.Conflict as error:
            return {'conflict': str(error)}
        except errors.TooLate as error:
            LOG.warning('Change %s of %s %s is dropped: %s.',
                        change['action'], change['object'],
                        change['object_id'], error)
            return {'error': f'The request is dropped: {error}.'}
        except errors.UnknownObject as error:
            LOG.error('Change %s of %s %s names an unknown object: %s',
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
                 stored.load_balancer_id)
        self._metrics.accepted(stored.load_balancer_id)
        self._stored(reports_end)
        return {'accepted': request, 'now': stored.now}
