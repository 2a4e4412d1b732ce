# SPDX-License-Identifier: Apache-2.0
"""Compares a load balancer with what Octavia has committed.

Octavia's database is right. What differs while no change is pending here was
lost on the way, or restored from a backup: it becomes the wanted state. What
Octavia waits for although nothing is under way here is sent once more.
"""

import copy

from octavia_lib.common import constants as lib
from oslo_log import log as logging

from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import spec
from octavia_xdp_provider.common import validation

LOG = logging.getLogger(__name__)

# Octavia refuses changes of what is in ERROR; earlier releases left it so.
_WAITING = (lib.PENDING_CREATE, lib.PENDING_UPDATE, lib.ERROR)


class Comparison:
    """Compares, and stores what follows."""

    def __init__(self, store, octavia):
        self._store = store
        self._octavia = octavia

    def compare(self, row):
        """Compare a load balancer that has no pending change.

        Nothing is stored if a change came meanwhile: that one marks the
        load balancer anew.

        :raises OctaviaUnavailable: Octavia does not answer.
        """
        tree = self._octavia.tree(row.id)
        try:
            theirs = self._octavia.document(row.id)
        except errors.Refused as refused:
            self._complain(row, refused)
            theirs = row.document
        if tree is None or theirs is None:
            # What one answer lacks is not removed: see resync.py.
            self._store.note_compared(row.id, row.generation, row.listed_at)
            return
        if tree.get(('loadbalancer', row.id)) == lib.PENDING_DELETE:
            LOG.warning('Load balancer %s is to be deleted as Octavia has '
                        'it, and is removed.', row.id)
            self._store.delete(row.id, expected=row.generation)
            return
        dying = {key for key, status in tree.items()
                 if status == lib.PENDING_DELETE}
        waiting = {key for key, status in tree.items()
                   if status in _WAITING}
        if not self._adopt(row, without(theirs, dying), waiting):
            self._store.note_compared(
                row.id, row.generation, row.listed_at,
                waiting & spec.objects(row.document),
                dying - spec.objects(row.document))

    def _adopt(self, row, theirs, waiting):
        """Take over what Octavia holds. False if there is nothing to do."""
        # With what Octavia does not show: the zone, the operator's defaults.
        theirs = spec.as_committed(row.document, theirs)
        differences = spec.differences(row.document, theirs)
        if not differences:
            return False
        LOG.warning('Load balancer %s differs from Octavia in: %s. Taking '
                    'over what Octavia holds.', row.id,
                    '; '.join(differences))
        try:
            validation.validate(theirs)
            self._store.change(row.id, lambda document: theirs,
                               expected=row.generation, pending=waiting)
        except (errors.Refused, errors.Conflict) as error:
            self._complain(row, error)
            return False
        return True

    @staticmethod
    def _complain(row, error):
        LOG.error('Load balancer %s as Octavia holds it cannot be done, the '
                  'present state stays: %s', row.id, error.for_operator)


def without(document, objects):
    """A document without these objects and what is below them."""
    result = copy.deepcopy(document)
    for kind, key in objects:
        if kind == 'listener':
            result['listeners'].pop(key, None)
        elif kind == 'pool':
            result['pools'].pop(key, None)
            for listener in result['listeners'].values():
                if listener['default_pool_id'] == key:
                    listener['default_pool_id'] = None
        for pool in result['pools'].values():
            if kind == 'member':
                pool['members'].pop(key, None)
            elif kind == 'healthmonitor' and (
                    pool['healthmonitor'] or {}).get('id') == key:
                pool['healthmonitor'] = None
    return result
