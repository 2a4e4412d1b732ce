# SPDX-License-Identifier: Apache-2.0
"""Sends Octavia what it waits for, and what has changed; nothing else.

Each status that is set moves ``updated_at`` of its row. So ACTIVE goes to
objects that a change made pending, DELETED to those that it removed, and an
operating status to those where it differs from what was sent last.
"""

from octavia_lib.common import constants as lib
from oslo_log import log as logging

from octavia_xdp_provider.common import spec
from octavia_xdp_provider.controller import status
from octavia_xdp_provider.controller import status_message
from octavia_xdp_provider.controller.octavia import errors

LOG = logging.getLogger(__name__)


class StatusUpdates:
    """Sends statuses, and notes which."""

    def __init__(self, store, octavia):
        self._store = store
        self._octavia = octavia

    def send(self, row, progress, late, item=None):
        """Send Octavia what is due.

        :param row: rows.LoadBalancer.
        :param progress: how far its nodes are.
        :param late: it has waited for long enough: the objects of its change
            become ACTIVE whatever nodes have done, so that it can be
            changed again. What was removed is DELETED only when it is.
        :param item: of the work queue: nothing is left to be done but this.
        :returns: whether the item is finished.
        :raises OctaviaUnavailable: it was not sent, or not all.
        """
        active = {item[:2] for item in row.unconfirmed}
        removed = {item[:2] for item in row.removed}
        deleted = bool(removed) and progress.removed and (
            progress.any_done or late)
        failed = bool(active or removed) and not progress.any_done
        operating = status.operating_statuses(row.document, progress.views,
                                              settling=not late)
        changed = status_message.difference(operating, row.sent_statuses)
        if not (changed or active or deleted):
            return False
        try:
            self._send(row.id, changed, active, removed if deleted else set())
        except errors.OctaviaUnavailable:
            if changed:
                # It may have been done, and be as before when we come again.
                self._store.doubt_sent(row.id)
            raise
        finished = self._store.note_sent(
            row.id, row.generation, statuses=operating, active=True,
            deleted=deleted or not removed, failed=failed, item=item)
        self._log(row, progress, operating, failed)
        return finished

    @staticmethod
    def _log(row, progress, operating, failed):
        if failed and row.failed_generation < row.generation:
            LOG.error('Load balancer %s: no live node could do generation %s '
                      'in time; its operating status is ERROR until one '
                      'does.', row.id, row.generation)
        elif row.unconfirmed:
            LOG.info('Load balancer %s is ACTIVE as of generation %s, %s%s.',
                     row.id, row.generation,
                     operating['loadbalancer', row.id],
                     '' if progress.all_done else
                     ', though not all of its nodes have done it')

    def deleted(self, load_balancer_id, objects):
        """Send Octavia that a load balancer and all below it are deleted.

        :param objects: (kind, id).
        """
        balancer = ('loadbalancer', load_balancer_id)
        self._send(load_balancer_id, {}, (), {balancer, *objects})

    def not_deleted(self, load_balancer_id):
        """Send Octavia that a load balancer could not be deleted in time: its
        owner sees it, and may delete it again."""
        self._octavia.set_statuses(status_message.message(
            {}, {('loadbalancer', load_balancer_id): lib.ERROR}))

    def _send(self, load_balancer_id, operating, active, deleted):
        try:
            self._octavia.set_statuses(_message(operating, active, deleted))
        except errors.Rejected:
            # Octavia refuses DELETED of what it has deleted: this was sent
            # before, by a controller that was killed before it noted so.
            held = self._octavia.tree(load_balancer_id) or {}
            if not deleted or deleted <= held.keys():
                raise
            records = _message(operating, active, deleted & held.keys())
            if held and records:
                self._octavia.set_statuses(records)


def objects(row):
    return spec.objects(row.document)


def _message(operating, active, deleted):
    return status_message.message(
        operating, dict.fromkeys(sorted(active), lib.ACTIVE),
        sorted(deleted))
