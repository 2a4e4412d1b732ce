# SPDX-License-Identifier: Apache-2.0
"""By what others see how a process does: systemd, Prometheus, health checks.

A process makes one, lets its loops be watched, adds what it checks and
counts, calls ``start`` before its loops begin, and ``ready`` when it serves.
"""

from oslo_config import cfg
from oslo_log import log as logging
import prometheus_client
from prometheus_client import core

from octavia_xdp_provider.common import health
from octavia_xdp_provider.common import http_listener
from octavia_xdp_provider.common import loops
from octavia_xdp_provider.common import option_values
from octavia_xdp_provider.common import systemd
from octavia_xdp_provider.common import watchdog

LOG = logging.getLogger(__name__)


class Monitoring:
    """Of one process.

    :param group: of the option that says where the process listens.
    :param name: of that option.
    :ivar loops: which the watchdog looks at.
    :ivar health: checks for GET /healthcheck.
    :ivar registry: of Prometheus, for GET /metrics.
    :ivar listener: http_listener.Listener, or None: nothing listens.
    """

    def __init__(self, conf: cfg.ConfigOpts, group: str,
                 name: str = 'listen',
                 registry: prometheus_client.CollectorRegistry | None = None
                 ) -> None:
        self.loops = loops.Loops(conf.hang_timeout)
        self.health = health.Health(self.loops)
        self.registry = registry or prometheus_client.CollectorRegistry()
        self.registry.register(_Ages(self.loops))
        self._systemd = systemd.Systemd()
        self._watchdog = watchdog.Watchdog(self.loops, self._systemd)
        self._repeated: list[health.Repeated] = []
        address = option_values.listening_address(conf, group, name)
        self.listener = address and http_listener.Listener(
            address, http_listener.application(self.registry, self.health))
        self._option = f'[{group}] {name}'

    def repeat(self, name: str, check: health.Repeated) -> None:
        """Add a check that takes its time; only made where it is asked for.
        """
        self.health.add(name, check.problem)
        if self.listener:
            self._repeated.append(check)

    def start(self) -> None:
        """Listen, check and watch from now on.

        :raises ConfigurationError: it cannot listen where it shall.
        """
        if self.listener:
            try:
                self.listener.start()
            except OSError as error:
                raise option_values.ConfigurationError(
                    f'{self._option}: {error.strerror or error}') from error
        for check in self._repeated:
            check.start()
        self._watchdog.start()

    def ready(self) -> None:
        """The process serves."""
        self._systemd.ready()

    def stop(self) -> None:
        """The process is about to end."""
        self._systemd.stopping()
        self._watchdog.stop()
        for check in self._repeated:
            check.stop()
        if self.listener:
            self.listener.stop()


class _Ages:
    """How long ago each loop has come round."""

    def __init__(self, watched: loops.Loops) -> None:
        self._loops = watched

    def collect(self) -> list[prometheus_client.Metric]:
        """Called by Prometheus' registry."""
        found = core.GaugeMetricFamily(
            'octavia_xdp_loop_age_seconds',
            'Since a loop of this process has come round, or for how long it '
            'has been at one thing', labels=['loop'])
        for name, age in self._loops.ages().items():
            found.add_metric([name], age)
        return [found]
