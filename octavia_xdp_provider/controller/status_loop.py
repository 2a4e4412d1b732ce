# SPDX-License-Identifier: Apache-2.0
"""Makes Octavia agree: the loop from node reports to Octavia's statuses.

For every load balancer the loop compares what is wanted (generation), what
the nodes have made true (placements) and what was sent to Octavia, and does
the next thing that is missing. It keeps no truth of its own: killed and
started again it finds the same thing to do.

Octavia calls the driver inside an open transaction. A status that comes
before its commit finds no row of a new object, or is overwritten when the
transaction ends. So (1) a generation is sent only when Octavia's committed
tree holds every object of it, and (2) before the provisioning statuses goes
a message with the load balancer's operating status alone: it waits in the
database for the row that the open transaction has locked. Octavia accepts
no further change until the load balancer is ACTIVE again, which a message
sets last, so that no status of a generation meets the next one.
"""

import threading
import time

from octavia_lib.common import constants as lib
from oslo_log import log as logging

from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import spec
from octavia_xdp_provider.common import validation
from octavia_xdp_provider.controller import node_api
from octavia_xdp_provider.controller import octavia as octavia_module
from octavia_xdp_provider.controller import status

LOG = logging.getLogger(__name__)

# Seconds until the loop looks again at what is not finished.
RETRY = 0.3
IDLE = 1.0


class _Progress:
    """How far the nodes are with one load balancer."""

    def __init__(self, balancer, placements, live):
        mine = [row for row in placements
                if row.load_balancer_id == balancer.id]
        wanted = [row for row in mine if row.removed_generation is None]
        self.leaving = [row.host for row in mine
                        if row.removed_generation is not None
                        and row.host in live]
        self.hosts = [row.host for row in wanted if row.host in live]
        self.failing = [row.host for row in wanted
                        if row.host in live and row.error]
        done = [row.host for row in wanted
                if row.host in live and not row.error
                and row.synced_generation >= balancer.generation]
        waiting = set(self.hosts) - set(done) - set(self.failing)
        self.any_done = bool(done)
        self.all_done = bool(done) and not waiting


class StatusLoop:
    """The loop. ``wake`` may be called from any thread."""

    def __init__(self, conf, store, health, octavia):
        self._conf = conf
        self._store = store
        self._health = health
        self._octavia = octavia
        self._event = threading.Event()
        self._sent = {}      # load balancer id → operating statuses sent
        self._resynced = {}  # load balancer id → time of last comparison
        self._complained = {}  # load balancer id → last error logged

    def wake(self, load_balancer_ids=()):
        self._event.set()

    def run(self, stop):
        """Loop until the event ``stop`` is set."""
        while not stop.is_set():
            self._event.clear()
            try:
                busy = self.step()
            except Exception:
                LOG.exception('The status loop failed and goes on.')
                busy = True
            self._event.wait(RETRY if busy else IDLE)

    def step(self):
        """Look at every load balancer once. True: look again soon."""
        live = {node.host for node in self._store.nodes()
                if node_api.alive(node, self._conf.placement.node_timeout)}
        placements = self._store.placements()
        busy = False
        balancers = self._store.load_balancers()
        for balancer in balancers:
            progress = _Progress(balancer, placements, live)
            try:
                busy |= self._advance(balancer, progress)
                self._complained.pop(balancer.id, None)
            except octavia_module.OctaviaUnavailable as error:
                busy = True
                if self._complained.get(balancer.id) != str(error):
                    LOG.warning('Load balancer %s: %s; trying again.',
                                balancer.id, error)
                    self._complained[balancer.id] = str(error)
        for memory in (self._sent, self._resynced, self._complained):
            for key in memory.keys() - {row.id for row in balancers}:
                del memory[key]
        return busy

    def _advance(self, balancer, progress):
        if balancer.deleted:
            return self._finish_deletion(balancer, progress)
        if progress.hosts and not self._health.any_reported(progress.hosts):
            # Just started: members are not OFFLINE, only not reported yet.
            # The nodes will report, or count as dead.
            return True
        operating = status.operating_statuses(
            balancer.document,
            self._health.of(balancer.id, progress.hosts),
            bool(progress.failing))
        busy = False
        if balancer.sent_generation < balancer.generation:
            busy = not self._send_generation(balancer, progress, operating)
        elif self._due(balancer):
            self._resync(balancer, operating)
        elif operating != self._sent.get(balancer.id):
            self._send_changes(balancer, operating)
        return busy

    def _age(self, balancer):
        return time.time() - balancer.changed_at

    # A new generation

    def _send_generation(self, balancer, progress, operating):
        """Returns True when the statuses of the generation were sent."""
        late = self._age(balancer) > self._conf.controller.status_timeout
        if not (progress.all_done or (late and progress.any_done)):
            if late and balancer.failed_generation < balancer.generation:
                self._send_failure(balancer, operating)
            return False
        if not self._committed(balancer):
            return False
        removed = [item[:2] for item in balancer.removed]
        self._send(balancer, operating['loadbalancer', balancer.id],
                   status.message(operating, lib.ACTIVE, removed))
        self._store.mark_sent(balancer.id, balancer.generation)
        self._sent[balancer.id] = operating
        self._resynced[balancer.id] = time.monotonic()
        LOG.info('Load balancer %s is ACTIVE as of generation %s, %s.',
                 balancer.id, balancer.generation,
                 operating['loadbalancer', balancer.id])
        return True

    def _send_failure(self, balancer, operating):
        if not self._committed(balancer):
            return
        message = status.message(
            {**operating, **{item[:2]: lib.ERROR
                             for item in balancer.removed},
             ('loadbalancer', balancer.id): lib.ERROR}, lib.ERROR)
        self._send(balancer, lib.ERROR, message)
        self._store.mark_sent(balancer.id, balancer.generation, failed=True)
        LOG.error('Load balancer %s: no live node has confirmed generation '
                  '%s within %s s; it is in ERROR until one does.',
                  balancer.id, balancer.generation,
                  self._conf.controller.status_timeout)

    def _send(self, balancer, operating, message):
        """Set provisioning statuses once Octavia's transaction has ended.

        :param operating: operating status of the load balancer as the
            message has it.
        """
        self._octavia.set_statuses(status.message(
            {('loadbalancer', balancer.id): operating}))
        self._octavia.set_statuses(message)

    def _committed(self, balancer):
        """Whether Octavia holds every object of the document.

        What it does not hold after ``confirm_timeout`` was rolled back by
        the API, and is taken out of the wanted state.
        """
        theirs = self._octavia.document(balancer.id)
        if theirs is not None and (spec.objects(balancer.document)
                                   <= spec.objects(theirs)):
            return True
        if self._age(balancer) > self._conf.controller.confirm_timeout:
            self._adopt(balancer, theirs)
        return False

    # Deletion

    def _finish_deletion(self, balancer, progress):
        if self._octavia.document(balancer.id) is None:
            if not progress.leaving:
                self._store.forget(balancer.id)
                LOG.info('Load balancer %s is deleted.', balancer.id)
            return bool(progress.leaving)
        if not progress.leaving:
            # Deleted children have no further status.
            removed = {item[:2] for item in balancer.removed}
            removed |= spec.objects(balancer.document)
            message = status.message({}, removed=sorted(removed))
            self._send(balancer, lib.OFFLINE, message)
        elif (self._age(balancer) > self._conf.controller.status_timeout
              and balancer.failed_generation < balancer.generation):
            message = status.message(
                {('loadbalancer', balancer.id): lib.ERROR}, lib.ERROR)
            self._send(balancer, lib.ERROR, message)
            self._store.mark_sent(balancer.id, balancer.generation,
                                  failed=True)
            LOG.error('Load balancer %s: nodes %s have not removed it '
                      'within %s s.', balancer.id,
                      ', '.join(progress.leaving),
                      self._conf.controller.status_timeout)
        return True

    # Steady state

    def _due(self, balancer):
        last = self._resynced.get(balancer.id)
        return (last is None or time.monotonic() - last
                > self._conf.controller.resync_interval)

    def _resync(self, balancer, operating):
        """Compare with Octavia's committed tree, and repeat statuses."""
        self._resynced[balancer.id] = time.monotonic()
        theirs = self._octavia.document(balancer.id)
        old = self._age(balancer) > self._conf.controller.confirm_timeout
        if old and (theirs is None
                    or spec.differences(balancer.document, theirs)):
            self._adopt(balancer, theirs)
            return
        if theirs is not None:
            self._octavia.set_statuses(
                status.message(operating, lib.ACTIVE))
            self._sent[balancer.id] = operating

    def _send_changes(self, balancer, operating):
        before = self._sent.get(balancer.id, {})
        self._octavia.set_statuses(status.message(
            {key: value for key, value in operating.items()
             if before.get(key) != value}))
        self._sent[balancer.id] = operating

    def _adopt(self, balancer, theirs):
        """Octavia's database is right: replace the document by it."""
        if theirs is None:
            LOG.warning('Octavia does not hold load balancer %s: removing '
                        'it.', balancer.id)
            self._store.delete(balancer.id)
            return
        differences = spec.differences(balancer.document, theirs)
        LOG.warning('Load balancer %s differs from Octavia in: %s. Taking '
                    'over what Octavia holds.', balancer.id,
                    '; '.join(differences))
        try:
            validation.validate(theirs)
            self._store.change(balancer.id, lambda document: theirs,
                               expected=balancer.generation)
        except errors.Refused as refused:
            LOG.error('Load balancer %s as Octavia holds it cannot be '
                      'done, the present state stays: %s', balancer.id,
                      refused)
