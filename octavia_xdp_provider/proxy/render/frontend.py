# SPDX-License-Identifier: Apache-2.0
"""A frontend: a listener with its sockets and policies."""

from octavia_xdp_provider.api import connections
from octavia_xdp_provider.contracts import proxy_spec
from octavia_xdp_provider.proxy.render import backend
from octavia_xdp_provider.proxy.render import policies
from octavia_xdp_provider.proxy.render import quoting
from octavia_xdp_provider.proxy.render import settings as settings_
from octavia_xdp_provider.proxy.render import tls

# Octavia's default, in ms.
_CLIENT_DATA_MS = 50000
METRICS = 'metrics'
# Of LB nodes' probes.
HEALTH = 'health'
HEALTH_CONNECTIONS = 100
_HEALTH_CLIENT_MS = 2000
# Variable with the number of clients of all listeners.
_CLIENTS = 'sess.clients'
_HTTP = ('HTTP', 'TERMINATED_HTTPS', 'PROMETHEUS')


def connection_limit(listener: proxy_spec.Listener,
                     settings: settings_.Settings) -> int:
    """Return how many clients of a listener are served at a time here;
    further ones wait in the kernel's queue, as in Octavia."""
    if not listener['connection_limit']:
        return settings.connections
    return min(settings.connections, connections.part(
        listener['connection_limit'], settings.nodes, settings.position))


def sum_of_limits(document: proxy_spec.Document,
                  settings: settings_.Settings) -> int:
    """Return how many clients all listeners together could have."""
    return sum(connection_limit(listener, settings)
               for _key, listener in settings_.listeners_in_use(document))


def health_lines(document: proxy_spec.Document) -> list[str]:
    """Return the section that answers LB nodes' probes.

    HAProxy itself answers, whatever its members do. The kernel accepts
    connections for a HAProxy that hangs, too, but does not answer requests.
    """
    return [
        quoting.heading('frontend', HEALTH),
        quoting.line('mode', 'http'),
        *(quoting.line('bind', f'fd@${{{settings_.health_variable(index)}}}')
          for index in range(len(proxy_spec.vips(document)))),
        quoting.line('maxconn', HEALTH_CONNECTIONS),
        quoting.line('timeout', 'client', _HEALTH_CLIENT_MS),
        quoting.line('http-request', 'return', 'status', 200)]


def lines(document: proxy_spec.Document, listener_id: str,
          listener: proxy_spec.Listener, settings: settings_.Settings
          ) -> list[str]:
    """Return a section."""
    words = tls.listener_words(listener_id, listener, settings)
    result = [
        quoting.heading('frontend', listener_id),
        *_mode_lines(listener),
        *(quoting.line('bind', _socket(listener_id, index), *words)
          for index in range(len(proxy_spec.vips(document)))),
        quoting.line('maxconn', connection_limit(listener, settings)),
        quoting.line('timeout', 'client',
                     listener['timeout_client_data'] or _CLIENT_DATA_MS)]
    if sum_of_limits(document, settings) > settings.connections:
        result += _sum_lines(document, settings)
    if listener['timeout_tcp_inspect']:
        result.append(quoting.line('tcp-request', 'inspect-delay',
                                   listener['timeout_tcp_inspect']))
    if listener['protocol'] == 'PROMETHEUS':
        return [*result, quoting.line('default_backend', METRICS)]
    if any(backend.uses_source_port(pool) for _key, pool
           in proxy_spec.pools_of(document, listener)):
        result.append(quoting.line(
            'tcp-request', 'connection',
            f'set-var({backend.SOURCE_PORT})', 'src_port'))
    if (listener['protocol'] == 'TERMINATED_HTTPS'
            and listener['hsts_max_age'] is not None):
        result.append(quoting.line(
            'http-response', 'set-header', 'Strict-Transport-Security',
            _hsts(listener)))
    result += policies.lines(listener_id, listener, document['pools'])
    pool = document['pools'].get(listener['default_pool_id'] or '')
    if pool and pool['admin_state_up']:
        result.append(quoting.line(
            'default_backend', f'{listener["default_pool_id"]}:{listener_id}'))
    return result


def _mode_lines(listener: proxy_spec.Listener) -> list[str]:
    """Return the mode. ``idle-close-on-response`` lets a process that ends
    answer a last request on each idle connection, so that no client loses one
    in a reload."""
    if listener['protocol'] not in _HTTP:
        return [quoting.line('mode', 'tcp')]
    return [quoting.line('mode', 'http'),
            quoting.line('option', 'idle-close-on-response')]


def _sum_lines(document: proxy_spec.Document, settings: settings_.Settings
               ) -> list[str]:
    """Return what refuses clients beyond the node's limit.

    HAProxy's own limit of all connections would make probes wait as well.
    """
    first, *others = [key for key, _listener
                      in settings_.listeners_in_use(document)]
    action = f'set-var({_CLIENTS})'
    start = ['tcp-request', 'connection']
    return [
        quoting.line(*start, action, f'fe_conn({first})'),
        *(quoting.line(*start, action, f'fe_conn({key}),add({_CLIENTS})')
          for key in others),
        quoting.line(*start, 'reject', 'if', '{', f'var({_CLIENTS})', '-m',
                     'int', 'gt', settings.connections, '}'),
        quoting.line(*start, f'unset-var({_CLIENTS})')]


def _socket(listener_id: str, vip_index: int) -> str:
    """Return an inherited socket, which survives HAProxy's reloads and
    crashes. ``bind`` expands the variable."""
    name = settings_.socket_variable(listener_id, vip_index)
    return f'fd@${{{name}}}'


def _hsts(listener: proxy_spec.Listener) -> str:
    result = f'max-age={listener["hsts_max_age"]};'
    if listener['hsts_include_subdomains']:
        result += ' includeSubDomains;'
    if listener['hsts_preload']:
        result += ' preload;'
    return result
