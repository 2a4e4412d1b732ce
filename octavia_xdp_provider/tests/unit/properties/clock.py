# SPDX-License-Identifier: Apache-2.0
"""Time under the test's control, for all modules that read it."""

import time
import types
from unittest import mock

from octavia_xdp_provider.controller import duty
from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.driver import bounded_calls
from octavia_xdp_provider.driver import controller_client
from octavia_xdp_provider.driver import database_clock
from octavia_xdp_provider.process.agents import link


class Asleep(BaseException):
    """A thread sleeps, and has to be run again later."""


class Clock:
    """The clocks, in seconds.

    :ivar now: of the monotonic clocks.
    :ivar database: by how much the database's clock is ahead of them.
    """

    def __init__(self):
        self.now = 1_000_000.0
        self.database = 500_000.0

    def database_time(self):
        return self.now + self.database

    def monotonic(self):
        return self.now

    def monotonic_ns(self):
        return int(self.now * 1e9)

    @staticmethod
    def _sleep(seconds):
        raise Asleep

    def patches(self):
        """Yield patches of the modules that read the time or wait."""
        module = types.SimpleNamespace(
            time=self.database_time, monotonic=self.monotonic,
            monotonic_ns=self.monotonic_ns, sleep=self._sleep)
        for target in (link, duty, base, bounded_calls, controller_client):
            assert target.time is time
            yield mock.patch.object(target, 'time', module)
        yield mock.patch.object(database_clock, '_elapsed', self.monotonic)
