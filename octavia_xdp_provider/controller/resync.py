# SPDX-License-Identifier: Apache-2.0
"""Compares all load balancers with Octavia's list, and looks where it must.

The list has no documents, and costs a page of a few hundred rows a call. What
differs is left to the workers: a row that has changed since it was compared
(``updated_at``), or that Octavia has pending although nothing is under way
here, is marked and compared (comparison.py).

Each status that Octavia is sent moves ``updated_at``, and a comparison costs
more than all else about a change. So a row of which something was sent since
the last list, and which is not older than it was, is taken as it is but for a
few in each round.

A load balancer that Octavia does not list is removed only after several lists
over some time have lacked it, and only so many at once: an answer may be
wrong, and a database that was restored from a backup lacks what is in use.
"""

import dataclasses
import random
import time

from octavia_lib.common import constants as lib
from oslo_log import log as logging

from octavia_xdp_provider.common import ages
from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import validation
from octavia_xdp_provider.controller.store import sent_statuses

LOG = logging.getLogger(__name__)


# Of what Octavia was sent statuses of: so many are compared in each round.
AUDITED = 2


@dataclasses.dataclass
class Drift:
    """What a list and the store disagree on.

    ``changed``: id → ``updated_at`` of what has changed since it was
    compared. ``explained``: the same of what has changed by what Octavia was
    sent. ``pending``: ids of those that Octavia has pending, or in
    ERROR, though nothing is under way here. ``unknown``, ``deleting``: ids
    of those that are not held here, and of those of them that Octavia
    deletes. ``missing``: ids of those that Octavia does not list.
    """

    changed: dict[str, str] = dataclasses.field(default_factory=dict)
    explained: dict[str, str] = dataclasses.field(default_factory=dict)
    pending: dict[str, str] = dataclasses.field(default_factory=dict)
    unknown: list[str] = dataclasses.field(default_factory=list)
    deleting: list[str] = dataclasses.field(default_factory=list)
    missing: list[str] = dataclasses.field(default_factory=list)


def drift(listed, known, working, now, settled_s):
    """Compare a whole list with the store.

    :param listed: rows of the list, see octavia/api.py.
    :param known: id → sent_statuses.Known, read before the list.
    :param working: ids of load balancers that are in the work queue.
    :param settled_s: seconds since the last change after which Octavia must
        list a load balancer.
    """
    found = Drift()
    seen = set()
    for row in listed:
        seen.add(row.id)
        mine = known.get(row.id)
        if mine is None:
            if row.id in working:
                continue
            deleting = row.provisioning_status == lib.PENDING_DELETE
            (found.deleting if deleting else found.unknown).append(row.id)
        elif not mine.pending and not mine.deleted and mine.generation:
            updated_at = row.updated_at or ''
            if row.id not in working and row.provisioning_status != (
                    lib.ACTIVE):
                found.pending[row.id] = updated_at
            elif mine.compared_at == sent_statuses.SENT and (
                    updated_at >= (mine.listed_at or '')):
                found.explained[row.id] = updated_at
            elif updated_at != mine.compared_at:
                found.changed[row.id] = updated_at
    found.missing = sorted(
        key for key, mine in known.items()
        if key not in seen and mine.generation and not mine.deleted
        and not mine.pending and ages.age(mine.changed_at, now) > settled_s)
    return found


class Resync:
    """Runs under the leader's lease."""

    def __init__(self, conf, store, octavia, changed):
        """:param changed: called when load balancers were marked."""
        self._conf = conf.controller
        self._store = store
        self._octavia = octavia
        self._changed = changed
        self._listed = 0          # how many the last list had
        self._unknown = set()     # ids that the last list had, too
        self._complained = set()  # ids of missing ones that the log has

    def look(self):
        """What differs. Changes nothing.

        :raises OctaviaUnavailable: the list is not whole.
        """
        known = self._store.known()
        listed = list(self._octavia.listed())
        self._listed = len(listed)
        found = drift(listed, known,
                      self._store.marked(row.id for row in listed),
                      self._store.now(), self._conf.confirm_timeout)
        # Sent while it was listed: the next list shows what came of it.
        for key in self._store.sent_since(found.changed):
            if known[key].compared_at != sent_statuses.SENT:
                del found.changed[key]
        return found

    def run(self, token):
        """Compare once.

        :param token: of the leader's lease, or None after a call: then
            nothing is done.
        :raises OctaviaUnavailable: the list is not whole.
        """
        began = time.monotonic()
        found = self.look()
        if token() is None:
            return
        audited = random.sample(sorted(found.explained),
                                min(AUDITED, len(found.explained)))
        found.changed.update((key, found.explained.pop(key))
                             for key in audited)
        self._store.note_explained(found.explained)
        self._store.note_listed({**found.changed, **found.pending})
        if found.deleting:
            self._store.bury(found.deleting, self._conf.confirm_timeout)
        # A load balancer that is being created is unknown for a moment.
        for key in found.unknown:
            if key in self._unknown:
                self.adopt(key)
        self._unknown = set(found.unknown)
        self._remove_missing(found.missing)
        self._changed()
        LOG.debug('Compared with Octavia\'s list of %s load balancers in '
                  '%.2f s: %s have changed, %s more by what it was sent.',
                  self._listed, time.monotonic() - began,
                  len(found.changed) + len(found.pending),
                  len(found.explained))

    def adopt(self, key):
        """Take over a load balancer that is not held here."""
        try:
            document = self._octavia.document(key)
            if document is None:
                return
            validation.validate(document)
            generation = self._store.create(document)
        except (errors.Refused, errors.Conflict) as error:
            LOG.error('Octavia has load balancer %s, which is not held here '
                      'and cannot be done: %s', key, error.for_operator)
            return
        self._store.note_listed({key: ''})
        LOG.warning('Octavia has load balancer %s, which was not held here: '
                    'taken over as generation %s.', key, generation)

    def _remove_missing(self, missing):
        """Remove what Octavia lacks, within the quota."""
        misses = self._store.note_missing(missing)
        certain = sorted(
            key for key, (number, since_s) in misses.items()
            if number >= self._conf.missing_lists
            and since_s >= self._conf.missing_span)
        self._complained &= misses.keys()
        if len(certain) > self._conf.missing_removals_max:
            if not self._complained.issuperset(certain):
                LOG.error(
                    'Octavia lacks %s load balancers that are held here, '
                    'more than [controller] missing_removals_max (%s) '
                    'allows to remove: they stay. If they are to go, say '
                    '"octavia-xdp-manage sync --remove".', len(certain),
                    self._conf.missing_removals_max)
            self._complained.update(certain)
            return
        for key in certain:
            LOG.warning('Load balancer %s was missing in %s lists of Octavia '
                        'over %.0f s: it is removed.', key, *misses[key])
            self._store.delete(key)
