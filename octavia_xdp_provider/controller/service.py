# SPDX-License-Identifier: Apache-2.0
"""The controller process: RPC servers, the status loop, placement."""

import threading

from oslo_log import log as logging

from octavia_xdp_provider.common import rpc
from octavia_xdp_provider.controller import driver_api
from octavia_xdp_provider.controller import node_api
from octavia_xdp_provider.controller import octavia
from octavia_xdp_provider.controller import statistics
from octavia_xdp_provider.controller import status_loop
from octavia_xdp_provider.controller.scheduler import liveness
from octavia_xdp_provider.controller.scheduler import service as scheduler
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import schema

LOG = logging.getLogger(__name__)


class Controller:
    """Wires the parts together; ``run`` until ``stop`` is called."""

    def __init__(self, conf):
        manager = schema.context_manager(conf)
        schema.check(manager)
        self._conf = conf
        self._store = queries.Store(manager)
        self._health = node_api.Health()
        transport = rpc.transport(conf)
        self._wakeup = rpc.WakeupClient(transport)
        agent = octavia.Octavia(conf)
        self._status_loop = status_loop.StatusLoop(
            conf, self._store, self._health, agent)
        self._statistics = statistics.Statistics(self._store, agent)
        self._liveness = liveness.Liveness(
            conf.placement.node_timeout / 2)
        self._scheduler = scheduler.Scheduler(conf, self._store,
                                              self._liveness)
        self._place_now = threading.Event()
        self._stop = threading.Event()
        self.serving = threading.Event()
        self._server = rpc.server(
            transport, rpc.CONTROLLER_TOPIC, conf.host,
            [driver_api.DriverEndpoint(self._store, self._changed),
             node_api.NodesEndpoint(
                 self._store, self._health, self._liveness,
                 self._status_loop.wake, self._place_now.set)])

    def stop(self):
        """Ask ``run`` to return. Safe in a signal handler."""
        self._stop.set()
        self._place_now.set()
        self._status_loop.wake()

    def run(self):
        """Serve until ``stop`` is called."""
        threads = [
            threading.Thread(target=self._status_loop.run, args=(self._stop,),
                             name='status loop'),
            threading.Thread(target=self._send_statistics,
                             name='statistics')]
        for thread in threads:
            thread.start()
        self._server.start()
        self.serving.set()
        LOG.info('Controller %s serves.', self._conf.host)
        while not self._stop.is_set():
            self._place_now.clear()
            try:
                self.place()
            except Exception:
                LOG.exception('Placement failed and is tried again.')
            self._place_now.wait(1.0)
        self._server.stop()
        self._server.wait()
        for thread in threads:
            thread.join()
        LOG.info('Controller %s has stopped.', self._conf.host)

    def _send_statistics(self):
        interval = self._conf.controller.statistics_interval
        while not self._stop.wait(interval):
            try:
                self._statistics.send()
            except Exception:
                LOG.exception('Listener statistics could not be sent and '
                              'are sent later.')

    def _changed(self, load_balancer_id):
        """The wanted state changed: place it, and wake its nodes up."""
        try:
            self._scheduler.place([load_balancer_id])
            self._notify(row.host for row in self._store.placements(
                [load_balancer_id]))
        except Exception:
            # Stored is stored: the loops do this again by themselves.
            LOG.exception('Could not place load balancer %s at once.',
                          load_balancer_id)
        self._status_loop.wake()

    def place(self):
        """Compare placements with what they should be, and repair them."""
        self._notify(self._scheduler.place())

    def _notify(self, hosts):
        for host in hosts:
            try:
                self._wakeup.notify(host)
            except rpc.TRANSPORT_ERRORS as error:
                # The node's periodic comparison finds the change.
                LOG.warning('Could not notify node %s: %s', host, error)
