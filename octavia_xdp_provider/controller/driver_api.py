# SPDX-License-Identifier: Apache-2.0
"""The driver's calls: store the wanted state, answer at once."""

from oslo_log import log as logging
import oslo_messaging

from octavia_xdp_provider.common import changes
from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import rpc
from octavia_xdp_provider.common import spec
from octavia_xdp_provider.common import validation

LOG = logging.getLogger(__name__)


class DriverEndpoint:
    """RPC endpoint of the driver."""

    target = oslo_messaging.Target(namespace=rpc.DRIVER_NAMESPACE,
                                   version=rpc.VERSION)

    def __init__(self, store, changed):
        """:param changed: called with the load balancer's id after each
        stored change."""
        self._store = store
        self._changed = changed

    def change(self, context, change):
        """Store a change, and answer what became of it.

        :returns: ``{"generation": n}``; or ``{"refused": text}``,
            ``{"conflict": text}``, ``{"error": text}``, with nothing
            stored.
        """
        try:
            validation.check_change(change)
        except errors.Refused as error:
            return {'refused': str(error)}
        try:
            load_balancer_id, generation = self._store_change(change)
        except errors.Refused as error:
            return {'refused': str(error)}
        except errors.Conflict as error:
            return {'conflict': str(error)}
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
        LOG.info('Stored %s of %s %s: load balancer %s, generation %s.',
                 change['action'], change['object'], change['object_id'],
                 load_balancer_id, generation)
        self._changed(load_balancer_id)
        return {'generation': generation}

    def _store_change(self, change):
        load_balancer_id = self._store.find(change.get('load_balancer_id'),
                                            change.get('pool_id'))
        if change['object'] == 'loadbalancer':
            if change['action'] == 'create':
                document = spec.document(load_balancer_id, change['fields'])
                validation.validate(document)
                return load_balancer_id, self._store.create(document)
            if change['action'] == 'delete':
                # What is not stored is deleted already.
                return load_balancer_id, self._store.delete(load_balancer_id)

        def apply(document):
            result = changes.apply(document, change)
            validation.validate(result)
            return result

        return load_balancer_id, self._store.change(load_balancer_id, apply)
