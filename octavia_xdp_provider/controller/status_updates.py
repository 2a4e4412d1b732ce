# SPDX-License-Identifier: Apache-2.0
"""Sends only those statuses that Octavia waits for or that have changed.

Each status moves ``updated_at`` of its row. So ACTIVE is sent for objects that
a change made pending, DELETED for those that it removed, and an operating
status if it differs from the one sent last.
"""

from collections.abc import Iterable
from collections.abc import Set

from octavia_lib.common import constants as lib
from oslo_log import log as logging

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller import progress as progresses
from octavia_xdp_provider.controller import status
from octavia_xdp_provider.controller import status_message
from octavia_xdp_provider.controller.octavia import client
from octavia_xdp_provider.controller.octavia import errors
from octavia_xdp_provider.controller.octavia import sender
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.controller.store import work

LOG = logging.getLogger(__name__)

_NAMES: dict[str, str] = {rows.LB: 'LB node', rows.PROXY: 'proxy node'}


class StatusUpdates:
    """Sends statuses and stores what was sent."""

    def __init__(self, store: queries.Store, octavia: client.Octavia) -> None:
        self._store = store
        self._octavia = octavia

    def send(self, row: rows.LoadBalancer, progress: progresses.Progress,
             late: bool, item: work.Item | None = None) -> bool:
        """Send the statuses of a load balancer that are due.

        :param row: rows.LoadBalancer.
        :param progress: progress.Progress of its nodes.
        :param late: whether the time-out is over: objects of its change become
            ACTIVE even if no node has applied it, so that it can be changed
            again. Removed objects become DELETED only once they are removed.
        :param item: item of the work queue to finish with this.
        :returns: whether the item is finished.
        :raises OctaviaUnavailable: statuses were not sent, or not all.
        """
        active = {item[:2] for item in row.unconfirmed}
        removed = {item[:2] for item in row.removed}
        deleted = bool(removed) and progress.removed and (
            not progress.idle or late)
        failed = bool(active or removed) and bool(progress.idle)
        operating = status.operating_statuses(row.document, progress.views,
                                              settling=not late)
        changed = status_message.difference(operating, row.sent_statuses)
        if not (changed or active or deleted):
            return False
        try:
            self._send(row.id, changed, active, removed if deleted else set())
        except errors.OctaviaUnavailable:
            if changed:
                # They may have been set all the same, and the next attempt
                # may find the former statuses.
                self._store.sent_statuses.doubt(row.id)
            raise
        finished = self._store.sent_statuses.note(
            row.id, row.generation, statuses=operating, active=True,
            deleted=deleted or not removed, failed=failed, item=item)
        self._log(row, progress, operating, failed)
        return finished

    @staticmethod
    def _log(row: rows.LoadBalancer, progress: progresses.Progress,
             operating: status.Statuses, failed: bool) -> None:
        if failed and row.failed_generation < row.generation:
            LOG.error('Load balancer %s: no live %s has applied generation '
                      '%s in time; the operating status of what they serve '
                      'is ERROR until one has.', row.id, ' and no live '.join(
                          _NAMES[role] for role in progress.idle),
                      row.generation)
        elif row.unconfirmed:
            LOG.info('Load balancer %s is ACTIVE as of generation %s, %s%s.',
                     row.id, row.generation,
                     operating['loadbalancer', row.id],
                     '' if progress.all_done else
                     ', but not all of its nodes have applied it')

    def deleted(self, load_balancer_id: str, objects: Iterable[spec.Object]
                ) -> None:
        """Send DELETED of a load balancer and its descendants.

        :param objects: (kind, id) of the descendants.
        """
        balancer = ('loadbalancer', load_balancer_id)
        self._send(load_balancer_id, {}, (), {balancer, *objects})

    def not_deleted(self, load_balancer_id: str) -> None:
        """Send ERROR of a load balancer that could not be deleted in time, so
        that its owner notices and may delete it again."""
        self._octavia.set_statuses(status_message.message(
            {}, {('loadbalancer', load_balancer_id): lib.ERROR}))

    def _send(self, load_balancer_id: str, operating: status.Statuses,
              active: Iterable[spec.Object], deleted: Set[spec.Object]
              ) -> None:
        try:
            self._octavia.set_statuses(_message(operating, active, deleted))
        except errors.Rejected:
            # Octavia refuses DELETED of objects that are gone, and any status
            # of such policies and rules: a controller was killed after it had
            # sent this and before it stored that, or a message was lost.
            held = (self._octavia.tree(load_balancer_id) or {}).keys()
            if {*operating, *active, *deleted} <= held:
                raise
            records = _message(
                {key: status for key, status in operating.items()
                 if key in held}, held & set(active), deleted & held)
            if held and records:
                self._octavia.set_statuses(records)


def objects(row: rows.LoadBalancer) -> set[spec.Object]:
    return spec.objects(row.document)


def _message(operating: status.Statuses, active: Iterable[spec.Object],
             deleted: Set[spec.Object]) -> sender.Message:
    return status_message.message(
        operating, dict.fromkeys(sorted(active), lib.ACTIVE),
        sorted(deleted))
