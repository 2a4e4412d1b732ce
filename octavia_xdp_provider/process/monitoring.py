# SPDX-License-Identifier: Apache-2.0
"""How a process is monitored: by systemd, Prometheus and health checks.

A process creates one ``Monitoring``, registers its loops, health checks and
metrics, calls ``start`` before its loops begin, and ``ready`` once it serves.
"""

from oslo_config import cfg
from oslo_log import log as logging
import prometheus_client
from prometheus_client import core

from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.process import health
from octavia_xdp_provider.process import http_listener
from octavia_xdp_provider.process import loops
from octavia_xdp_provider.process import systemd
from octavia_xdp_provider.process import watchdog

LOG = logging.getLogger(__name__)


class Monitoring:
    """The monitoring of one process.

    :param group: group of the option with the address to listen at.
    :param name: name of that option.
    :ivar loops: the loops that the watchdog checks.
    :ivar health: the checks of GET /healthcheck.
    :ivar registry: the Prometheus registry of GET /metrics.
    :ivar systemd: the service manager.
    :ivar listener: http_listener.Listener, or None if nothing listens.
    """

    def __init__(self, conf: cfg.ConfigOpts, group: str,
                 name: str = 'listen',
                 registry: prometheus_client.CollectorRegistry | None = None
                 ) -> None:
        self.loops = loops.Loops(conf.hang_timeout)
        self.health = health.Health(self.loops)
        self.registry = registry or prometheus_client.CollectorRegistry()
        self.registry.register(_Ages(self.loops))
        self.systemd = systemd.Systemd()
        self._watchdog = watchdog.Watchdog(self.loops, self.systemd)
        self._repeated: list[health.Repeated] = []
        address = option_values.listening_address(conf, group, name)
        self.listener = address and http_listener.Listener(
            address, http_listener.application(self.registry, self.health),
            _refused(self.registry).inc)
        self._option = f'[{group}] {name}'

    def repeat(self, name: str, check: health.Repeated) -> None:
        """Add a check that may take long; it only runs with a listener."""
        self.health.add(name, check.problem)
        if self.listener:
            self._repeated.append(check)

    def start(self) -> None:
        """Start the listener, the repeated checks and the watchdog.

        :raises ConfigurationError: it cannot listen at the address.
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
        """Tell systemd that the process serves."""
        self.systemd.ready()

    def stop(self) -> None:
        """Tell systemd that the process is ending, and stop everything."""
        self.systemd.stopping()
        self._watchdog.stop()
        for check in self._repeated:
            check.stop()
        if self.listener:
            self.listener.stop()


def _refused(registry: prometheus_client.CollectorRegistry
             ) -> prometheus_client.Counter:
    return prometheus_client.Counter(
        'octavia_xdp_refused_connections', 'Connections to this listener '
        f'beyond {http_listener.CONNECTIONS_MAX} at a time, which were closed',
        registry=registry)


class _Ages:
    """Metric of the time since each loop last reported that it is alive."""

    def __init__(self, watched: loops.Loops) -> None:
        self._loops = watched

    def collect(self) -> list[prometheus_client.Metric]:
        """Called by Prometheus' registry."""
        metric = core.GaugeMetricFamily(
            'octavia_xdp_loop_age_seconds',
            'Since the last iteration of a loop of this process, or how long '
            'it has been at one thing', labels=['loop'])
        for name, age in self._loops.ages().items():
            metric.add_metric([name], age)
        return [metric]
