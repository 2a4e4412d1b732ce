# SPDX-License-Identifier: Apache-2.0
"""HAProxy's configuration of a load balancer, from its document.

It needs HAProxy 2.6 or newer, and depends on nothing but its arguments: the
same document yields the same text on each node and in whatever order its
objects are. The semantics are those of Octavia's renderer for amphorae
(octavia/common/jinja/haproxy/combined_listeners); the unit test test_oracle
compares both, and ``differences`` beside it lists where they differ on
purpose. Why Octavia's renderer is not called is in decisions.rst.
"""

from collections.abc import Collection
import dataclasses

from octavia_xdp_provider.contracts import proxy_spec
from octavia_xdp_provider.proxy.render import backend
from octavia_xdp_provider.proxy.render import frontend
from octavia_xdp_provider.proxy.render import quoting
from octavia_xdp_provider.proxy.render import settings as settings_
from octavia_xdp_provider.proxy.render import tls

_METRICS_TIMEOUT = '5s'


@dataclasses.dataclass(frozen=True)
class Configuration:
    """:param text: HAProxy's configuration. :param files: text of each file
        in the directory of certificates that has no secret, by name."""

    text: str
    files: dict[str, str]


def render(document: proxy_spec.Document, settings: settings_.Settings,
           down: Collection[str] = ()) -> Configuration:
    """Return the configuration of a load balancer.

    :param document: checked by api/proxied.py.
    :param down: ids of members that are known to be down.
    """
    listeners = settings_.listeners_in_use(document)
    sections = [_global(document, settings), _defaults()]
    files = {}
    for listener_id, listener in listeners:
        sections.append(frontend.lines(document, listener_id, listener,
                                       settings))
        sections += [
            backend.lines(listener_id, listener, pool_id, pool, settings, down)
            for pool_id, pool in proxy_spec.pools_of(document, listener)
            if pool['admin_state_up']]
        if proxy_spec.has_tls(listener):
            files[settings_.list_file(listener_id)] = (
                tls.certificate_list(listener))
    if any(listener['protocol'] == 'PROMETHEUS' for _key, listener
           in listeners):
        sections.append(_metrics(settings))
    if listeners:
        sections.append(frontend.health_lines(document))
    return Configuration(
        '\n'.join('\n'.join(section) + '\n' for section in sections), files)


def connection_limit(document: proxy_spec.Document,
                     settings: settings_.Settings) -> int:
    """Return how many connections HAProxy has at a time: those of clients of
    all listeners, and those of probes.

    Probes have room of their own: if listeners that are used up kept them
    out, LB nodes would take the proxy out, and overload the others.
    """
    return frontend.HEALTH_CONNECTIONS + min(
        settings.connections,
        frontend.sum_of_limits(document, settings) or settings.connections)


def _global(document: proxy_spec.Document, settings: settings_.Settings
            ) -> list[str]:
    return [
        quoting.heading('global'),
        # The master keeps what it has if a new configuration is refused.
        quoting.line('master-worker'),
        # Old workers end after so many reloads, or after so long.
        quoting.line('mworker-max-reloads', settings.max_reloads),
        quoting.line('hard-stop-after', f'{settings.hard_stop_after}s'),
        quoting.line('nbthread', settings.threads),
        quoting.line('maxconn', connection_limit(document, settings)),
        # Its directory is the agent's as well.
        quoting.line('stats', 'socket', settings.runtime_socket(), 'mode',
                     '660', 'level', 'admin'),
        # Tickets resume sessions at each node; HAProxy's own cache, of 5 MiB
        # by default, at one process alone.
        quoting.line('tune.ssl.cachesize', settings.tls_cache_entries),
        *([quoting.line('crt-base', settings.certificates)]
          if settings.certificates else [])]


def _defaults() -> list[str]:
    """Return what Octavia has for all listeners."""
    return [
        quoting.heading('defaults'),
        quoting.line('no', 'log'),
        quoting.line('retries', '3'),
        *(quoting.line('option', name) for name in (
            'redispatch', 'splice-request', 'splice-response',
            'http-keep-alive'))]


def _metrics(settings: settings_.Settings) -> list[str]:
    """Return the backend of PROMETHEUS listeners: a process of this node that
    has the sums of all nodes."""
    return [
        quoting.heading('backend', frontend.METRICS),
        quoting.line('mode', 'http'),
        quoting.line('timeout', 'connect', _METRICS_TIMEOUT),
        quoting.line('timeout', 'server', _METRICS_TIMEOUT),
        quoting.line('server', frontend.METRICS,
                     f'unix@{settings.metrics_socket()}')]
