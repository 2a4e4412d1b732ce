# SPDX-License-Identifier: Apache-2.0
"""A controller process, which may be killed at each of its steps."""

import contextlib
import functools

from octavia_xdp_provider.controller import advance
from octavia_xdp_provider.controller import driver_api
from octavia_xdp_provider.controller import duty
from octavia_xdp_provider.controller import node_api
from octavia_xdp_provider.controller import resync
from octavia_xdp_provider.controller import workers
from octavia_xdp_provider.controller.octavia import errors
from octavia_xdp_provider.controller.scheduler import service
from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import leases
from octavia_xdp_provider.tests.unit.controller import network

# Seconds until a failed item is retried.
_AGAIN_S = 1.0


class Killed(BaseException):
    """The process is dead and does nothing any more."""


class Process:
    """All parts of a controller, without their threads.

    :ivar fuse: steps until it dies; None: it lives on. Begin and end of each
        call of the database and of Octavia are steps.
    """

    def __init__(self, conf, store, octavia, owner, notify):
        self.fuse = None
        self.alive = True
        self.owner = owner
        self._lease_s = conf.controller.lease_duration
        self._store = store = _Mortal(self, store)
        octavia = _Mortal(self, octavia)
        placing = service.Scheduler(conf, store)
        self._advance = advance.Advance(conf, store, octavia, placing, notify)
        self.leadership = duty.Leadership(store, owner, self._lease_s)
        self._duty = duty.Duty(conf, store, self.leadership, placing, notify,
                               _nothing)
        self._resync = resync.Resync(conf, store, octavia, _nothing)
        self.driver = _Endpoint(self, driver_api.DriverEndpoint(
            store, _nothing, _nothing,
            lambda change: notify(change.hosts)))
        self.nodes = _Endpoint(self, node_api.NodesEndpoint(
            store, _nothing, _nothing))
        self.heartbeats = _Endpoint(self, node_api.HeartbeatEndpoint(
            store.nodes.heartbeat))

    def kill(self):
        self.alive = False

    def step(self):
        """Count a step, and die at the last one."""
        if not self.alive:
            raise Killed
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse < 0:
                self.kill()
                raise Killed

    def work(self, items=50):
        """Do the items that are due; return how many there were."""
        done = 0
        while done < items:
            claimed = self._store.work.claim(self.owner, 1, self._lease_s)
            if not claimed:
                break
            item, = claimed
            key = item.load_balancer_id
            try:
                again = self._advance.step(
                    item, lambda key=key: self._store.work.is_claimed_by(
                        self.owner, key))
            except errors.OctaviaUnavailable:
                again = _AGAIN_S
            if again is not workers.FINISHED:
                self._store.work.finish(item, self.owner, again)
            done += 1
        return done

    def lead(self):
        """Do the leader's duties, if this process leads."""
        with contextlib.suppress(leases.LeaseLost):
            self._duty.step()

    def resync(self):
        """Compare with Octavia's list, if this process leads."""
        if self.leadership.token() is not None:
            with contextlib.suppress(errors.OctaviaUnavailable):
                self._resync.run(self.leadership.token)


def _nothing(*_arguments):
    """Wake up no thread."""


class _Mortal:
    """Wraps an object so that each call is two steps of a process."""

    def __init__(self, process, target):
        self._process = process
        self._target = target

    def __getattr__(self, name):
        attribute = getattr(self._target, name)
        if isinstance(attribute, base.Database | base.Queries):
            return _Mortal(self._process, attribute)
        if not callable(attribute):
            return attribute

        @functools.wraps(attribute)
        def call(*arguments, **named):
            self._process.step()
            result = attribute(*arguments, **named)
            self._process.step()
            return result
        return call


class _Endpoint:
    """An endpoint whose process may die while it answers."""

    def __init__(self, process, endpoint):
        self._process = process
        self._endpoint = endpoint

    def __getattr__(self, name):
        method = getattr(self._endpoint, name)

        def call(*arguments):
            try:
                return method(*arguments)
            except Killed:
                raise network.Lost from None
        return call
