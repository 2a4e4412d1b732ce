# SPDX-License-Identifier: Apache-2.0
"""Compares a load balancer with what Octavia has committed.

Octavia's database is authoritative. A difference without a pending change
results from a lost message or a backup: Octavia's state becomes the wanted
state. Statuses that Octavia waits for are sent again.
"""

from collections.abc import Iterable
from collections.abc import Set
import copy

from octavia_lib.common import constants as lib
from oslo_log import log as logging

from octavia_xdp_provider.api import validation
from octavia_xdp_provider.contracts import changes
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.octavia import client
from octavia_xdp_provider.controller.octavia import errors as octavia_errors
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import rows

LOG = logging.getLogger(__name__)

# ERROR is included as Octavia refuses changes of such objects.
_WAITING = (lib.PENDING_CREATE, lib.PENDING_UPDATE, lib.ERROR)


class Comparison:
    """Compares load balancers and stores the results."""

    def __init__(self, store: queries.Store, octavia: client.Octavia) -> None:
        self._store = store
        self._octavia = octavia

    def compare(self, row: rows.LoadBalancer) -> None:
        """Compare a load balancer that has no pending change.

        Nothing is stored if a change arrives meanwhile, which marks the load
        balancer again.

        :raises OctaviaUnavailable: Octavia does not answer.
        """
        tree = self._octavia.tree(row.id)
        octavias = self._document(row)
        if tree is None or octavias is None:
            # A single answer without it does not remove it: see resync.py.
            self._store.sent_statuses.note_compared(row.id, row.generation,
                                                    row.listed_at)
            return
        if tree.get(('loadbalancer', row.id)) == lib.PENDING_DELETE:
            LOG.warning('Load balancer %s is PENDING_DELETE in Octavia and '
                        'is removed.', row.id)
            self._store.load_balancers.delete(row.id, expected=row.generation)
            return
        dying = {key for key, status in tree.items()
                 if status == lib.PENDING_DELETE}
        waiting = {key for key, status in tree.items()
                   if status in _WAITING}
        if not self._adopt(row, without(octavias, dying), waiting):
            self._store.sent_statuses.note_compared(
                row.id, row.generation, row.listed_at,
                waiting & spec.objects(row.document),
                dying - spec.objects(row.document))

    def _document(self, row: rows.LoadBalancer) -> spec.Document | None:
        """Return Octavia's document, or ours if Octavia's cannot be used.

        :raises OctaviaUnavailable: Octavia does not answer.
        """
        try:
            return self._octavia.document(row.id)
        except errors.Refused as refused:
            self._log_invalid(row, refused)
        except octavia_errors.OctaviaUnavailable as error:
            if not spec.has_references(row.document):
                raise
            # octavia-driver-agent does not answer if a tenant has deleted a
            # certificate from where Octavia reads it.
            LOG.warning('Load balancer %s has certificates and cannot be '
                        'compared with Octavia: %s', row.id, error)
        return row.document

    def _adopt(self, row: rows.LoadBalancer, octavias: spec.Document,
               waiting: Set[spec.Object]) -> bool:
        """Take over Octavia's document; return False if nothing changes."""
        # Keep what Octavia does not show: the zone, the operator's defaults.
        octavias = spec.as_committed(row.document, octavias)
        differences = spec.differences(row.document, octavias)
        if not differences:
            return False
        LOG.warning('Load balancer %s differs from Octavia in: %s. Taking '
                    'over Octavia\'s state.', row.id, '; '.join(differences))
        try:
            validation.validate(octavias)
            self._store.load_balancers.change(
                row.id, lambda document: octavias, expected=row.generation,
                pending=waiting)
        except (errors.Refused, errors.Conflict) as error:
            self._log_invalid(row, error)
            return False
        return True

    @staticmethod
    def _log_invalid(row: rows.LoadBalancer,
                     error: errors.Refused | errors.Conflict) -> None:
        LOG.error('Load balancer %s: Octavia\'s state is invalid, and the '
                  'current state stays: %s', row.id, error.for_operator)


def without(document: spec.Document, objects: Iterable[spec.Object]
            ) -> spec.Document:
    """Return a document without some objects and their descendants."""
    result = copy.deepcopy(document)
    for kind, key in objects:
        if kind == 'listener':
            result['listeners'].pop(key, None)
        elif kind in ('l7policy', 'l7rule'):
            for listener in result['listeners'].values():
                _remove_layer_7(listener, kind, key)
        elif kind == 'pool':
            result['pools'].pop(key, None)
            for listener in result['listeners'].values():
                if listener['default_pool_id'] == key:
                    listener['default_pool_id'] = None
        for pool in result['pools'].values():
            if kind == 'member':
                pool['members'].pop(key, None)
            elif kind == 'healthmonitor':
                monitor = pool['healthmonitor']
                if monitor is not None and monitor['id'] == key:
                    pool['healthmonitor'] = None
    return result


def _remove_layer_7(listener: spec.Listener, kind: str, key: str) -> None:
    policies = listener.get('l7policies', {})
    if kind == 'l7rule':
        for policy in policies.values():
            policy['rules'].pop(key, None)
    elif key in policies:
        del policies[key]
        changes.number_policies(policies)
        if not policies:
            del listener['l7policies']
