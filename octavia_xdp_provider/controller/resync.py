# SPDX-License-Identifier: Apache-2.0
"""Compares all load balancers with Octavia's list.

The list has no documents, and takes a call per page of a few hundred rows.
Workers handle the differences: a row that has changed since it was compared
(``updated_at``), or that is pending in Octavia without work here, is marked
and compared (comparison.py).

Each status that is sent moves ``updated_at``, and a comparison costs more than
the rest of a change. So a row for which a status was sent since the last list,
and whose ``updated_at`` is not older, is trusted, except for a few in each
round.

A load balancer that Octavia does not list is removed only after it was missing
in several lists over some time, and only a limited number at once: an answer
may be wrong, and a restored database may lack load balancers in use.
"""

from collections.abc import Callable
from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import random
import time

from octavia_lib.common import constants as lib
from oslo_config import cfg
from oslo_log import log as logging

from octavia_xdp_provider.api import validation
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.controller.octavia import api
from octavia_xdp_provider.controller.octavia import client
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import sent_statuses
from octavia_xdp_provider.process import ages

LOG = logging.getLogger(__name__)


# Trusted rows that are compared nevertheless in each round.
AUDITED = 2


@dataclasses.dataclass
class Drift:
    """Differences between a list and the store.

    ``changed``: id → ``updated_at`` of load balancers that have changed since
    they were compared. ``explained``: the same, where a status that was sent
    explains the change. ``pending``: the same, where Octavia shows PENDING_*
    or ERROR without work here. ``unknown``, ``deleting``: ids that are not
    stored here, the latter being deleted by Octavia. ``missing``: ids that
    Octavia does not list.
    """

    changed: dict[str, str] = dataclasses.field(default_factory=dict)
    explained: dict[str, str] = dataclasses.field(default_factory=dict)
    pending: dict[str, str] = dataclasses.field(default_factory=dict)
    unknown: list[str] = dataclasses.field(default_factory=list)
    deleting: list[str] = dataclasses.field(default_factory=list)
    missing: list[str] = dataclasses.field(default_factory=list)


def drift(listed: Iterable[api.Listed],
          known: Mapping[str, sent_statuses.Known], working: Container[str],
          now: float, settled_s: float) -> Drift:
    """Compare a whole list with the store.

    :param listed: rows of the list, see octavia/api.py.
    :param known: id → sent_statuses.Known, read before the list.
    :param working: ids of load balancers that are in the work queue.
    :param settled_s: seconds since the last change after which Octavia must
        list a load balancer.
    """
    result = Drift()
    seen = set()
    for row in listed:
        seen.add(row.id)
        stored = known.get(row.id)
        if stored is None:
            if row.id in working:
                continue
            deleting = row.provisioning_status == lib.PENDING_DELETE
            (result.deleting if deleting else result.unknown).append(row.id)
        elif not stored.pending and not stored.deleted and stored.generation:
            updated_at = row.updated_at or ''
            if row.id not in working and row.provisioning_status != (
                    lib.ACTIVE):
                result.pending[row.id] = updated_at
            elif stored.compared_at == sent_statuses.SENT and (
                    updated_at >= (stored.listed_at or '')):
                result.explained[row.id] = updated_at
            elif updated_at != stored.compared_at:
                result.changed[row.id] = updated_at
    result.missing = sorted(
        key for key, stored in known.items()
        if key not in seen and stored.generation and not stored.deleted
        and not stored.pending
        and ages.age(stored.changed_at, now) > settled_s)
    return result


class Resync:
    """Runs under the leader's lease."""

    def __init__(self, conf: cfg.ConfigOpts, store: queries.Store,
                 octavia: client.Octavia, changed: Callable[[], object]
                 ) -> None:
        """:param changed: called when load balancers were marked."""
        self._conf = conf.controller
        self._store = store
        self._octavia = octavia
        self._changed = changed
        self._listed = 0          # length of the last list
        self._unknown: set[str] = set()  # unknown ids in the last list
        # missing ids that were logged
        self._logged_missing: set[str] = set()

    def look(self) -> Drift:
        """Return the Drift, without changing anything.

        :raises OctaviaUnavailable: the list is incomplete.
        """
        known = self._store.sent_statuses.known()
        listed = list(self._octavia.listed())
        self._listed = len(listed)
        result = drift(listed, known,
                       self._store.work.marked(row.id for row in listed),
                       self._store.database.now(), self._conf.confirm_timeout)
        # Statuses were sent during the listing: the next list shows them.
        for key in self._store.sent_statuses.sent_since(result.changed):
            if known[key].compared_at != sent_statuses.SENT:
                del result.changed[key]
        return result

    def run(self, token: Callable[[], int | None]) -> None:
        """Compare once.

        :param token: returns the token of the leader's lease, or None if
            another controller leads, so that nothing is changed.
        :raises OctaviaUnavailable: the list is incomplete.
        """
        began = time.monotonic()
        compared = self.look()
        if token() is None:
            return
        audited = random.sample(sorted(compared.explained),
                                min(AUDITED, len(compared.explained)))
        compared.changed.update((key, compared.explained.pop(key))
                                for key in audited)
        self._store.sent_statuses.note_explained(compared.explained)
        self._store.sent_statuses.note_listed({**compared.changed,
                                               **compared.pending})
        if compared.deleting:
            self._store.sent_statuses.bury(compared.deleting,
                                           self._conf.confirm_timeout)
        # A load balancer is unknown for a moment during its creation.
        for key in compared.unknown:
            if key in self._unknown:
                self.adopt(key)
        self._unknown = set(compared.unknown)
        self._remove_missing(compared.missing)
        self._changed()
        LOG.debug('Compared with Octavia\'s list of %s load balancers in '
                  '%.2f s: %s have changed, %s more by statuses sent to it.',
                  self._listed, time.monotonic() - began,
                  len(compared.changed) + len(compared.pending),
                  len(compared.explained))

    def adopt(self, key: str) -> None:
        """Take over a load balancer that is not stored here."""
        try:
            document = self._octavia.document(key)
            if document is None:
                return
            validation.validate(document)
            generation = self._store.load_balancers.create(document)
        except (errors.Refused, errors.Conflict) as error:
            LOG.error('Octavia has load balancer %s, which is not stored '
                      'here and is invalid: %s', key, error.for_operator)
            return
        self._store.sent_statuses.note_listed({key: ''})
        LOG.warning('Octavia has load balancer %s, which was not stored here: '
                    'taken over as generation %s.', key, generation)

    def _remove_missing(self, missing: Iterable[str]) -> None:
        """Remove load balancers that Octavia lacks, within the quota."""
        misses = self._store.sent_statuses.note_missing(missing)
        certain = sorted(
            key for key, (number, since_s) in misses.items()
            if number >= self._conf.orphan_lists
            and since_s >= self._conf.orphan_age)
        self._logged_missing &= misses.keys()
        if len(certain) > self._conf.orphan_removals_max:
            if not self._logged_missing.issuperset(certain):
                LOG.error(
                    'Octavia lacks %s load balancers that are stored here, '
                    'more than [controller] orphan_removals_max (%s) '
                    'allows to remove: they stay. To remove them, run '
                    '"octavia-xdp-manage sync --remove".', len(certain),
                    self._conf.orphan_removals_max)
            self._logged_missing.update(certain)
            return
        for key in certain:
            LOG.warning('Load balancer %s was missing in %s lists of Octavia '
                        'over %.0f s and is removed.', key, *misses[key])
            self._store.load_balancers.delete(key)
