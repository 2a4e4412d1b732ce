# SPDX-License-Identifier: Apache-2.0
"""A controller process, which may be killed at each step that it makes."""

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
from octavia_xdp_provider.controller.store import leases
from octavia_xdp_provider.tests.unit.controller import network

# Seconds until an item that failed is tried again.
_AGAIN_S = 1.0


class Killed(BaseException):
    """The process is dead. Nothing that it would do next happens."""


class Process:
    """All parts of a controller, without their threads.

    :ivar fuse: steps until it dies: a call of the database or of Octavia
        begins, or has returned. None: it lives on.
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
            lambda found: notify(found.hosts)))
        self.nodes = _Endpoint(self, node_api.NodesEndpoint(
            store, _nothing, _nothing))
        self.heartbeats = _Endpoint(self, node_api.HeartbeatEndpoint(
            store.heartbeat))

    def kill(self):
        self.alive = False

    def passes(self):
        """A step of the process."""
        if not self.alive:
            raise Killed
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse < 0:
                self.kill()
                raise Killed

    def work(self, items=50):
        """What is due, one after the other. Returns how much that was."""
        done = 0
        while done < items:
            claimed = self._store.claim(self.owner, 1, self._lease_s)
            if not claimed:
                break
            item, = claimed
            key = item.load_balancer_id
            try:
                again = self._advance.step(
                    item, lambda key=key: self._store.is_claimed_by(
                        self.owner, key))
            except errors.OctaviaUnavailable:
                again = _AGAIN_S
            if again is not workers.FINISHED:
                self._store.finish(item, self.owner, again)
            done += 1
        return done

    def lead(self):
        """The duties of the leader, if it is this one."""
        with contextlib.suppress(leases.LeaseLost):
            self._duty.step()

    def resync(self):
        """Compare with Octavia's list, if this process leads."""
        if self.leadership.token() is not None:
            with contextlib.suppress(errors.OctaviaUnavailable):
                self._resync.run(self.leadership.token)


def _nothing(*_arguments):
    """Nobody is to be woken up."""


class _Mortal:
    """The same object, each call of which is two steps of a process."""

    def __init__(self, process, target):
        self._process = process
        self._target = target

    def __getattr__(self, name):
        found = getattr(self._target, name)
        if not callable(found):
            return found

        @functools.wraps(found)
        def call(*arguments, **named):
            self._process.passes()
            result = found(*arguments, **named)
            self._process.passes()
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
