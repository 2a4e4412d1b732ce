# SPDX-License-Identifier: Apache-2.0
"""Octavia's metrics of a load balancer, from HAProxy's statistics.

The names are those of Octavia's amphorae. Left out is what HAProxy measures
of itself as a process (memory, rates of the TLS library), as its checks (the
health checker does these), and what an amphora says of its machine.
"""

from collections.abc import Callable
from collections.abc import Iterable
from typing import NamedTuple

# How values of several processes are joined. Those of COUNTER come from
# totals.Totals, which also has those of processes that have ended.
COUNTER = None


def _newest(values: list[float]) -> float:
    return values[-1]


Join = Callable[[list[float]], float] | None


class Metric(NamedTuple):
    """:ivar column: of HAProxy's statistics.
    :ivar kinds: which objects have it: l(isteners), p(ools), m(embers).
    :ivar divisor: of the value in the column.
    """

    column: str
    name: str
    kinds: str
    join: Join
    divisor: int = 1


_MS = 1000
METRICS = (
    Metric('scur', 'current_sessions', 'lpm', sum),
    Metric('smax', 'max_sessions', 'lpm', max),
    Metric('slim', 'limit_sessions', 'lpm', _newest),
    Metric('stot', 'sessions_total', 'lpm', COUNTER),
    Metric('rate_lim', 'limit_session_rate', 'l', _newest),
    Metric('rate_max', 'max_session_rate', 'lpm', max),
    Metric('conn_rate_max', 'connections_rate_max', 'l', max),
    Metric('conn_tot', 'connections_total', 'l', COUNTER),
    Metric('lastsess', 'last_session_seconds', 'pm', min),
    Metric('qcur', 'current_queue', 'pm', sum),
    Metric('qmax', 'max_queue', 'pm', max),
    Metric('qlimit', 'queue_limit', 'm', _newest),
    Metric('connect', 'connection_attempts_total', 'pm', COUNTER),
    Metric('reuse', 'connection_reuses_total', 'pm', COUNTER),
    Metric('bin', 'bytes_in_total', 'lpm', COUNTER),
    Metric('bout', 'bytes_out_total', 'lpm', COUNTER),
    Metric('qtime', 'queue_time_average_seconds', 'pm', _newest, _MS),
    Metric('ctime', 'connect_time_average_seconds', 'pm', _newest, _MS),
    Metric('rtime', 'response_time_average_seconds', 'pm', _newest, _MS),
    Metric('ttime', 'total_time_average_seconds', 'pm', _newest, _MS),
    Metric('qtime_max', 'max_queue_time_seconds', 'pm', max, _MS),
    Metric('ctime_max', 'max_connect_time_seconds', 'pm', max, _MS),
    Metric('rtime_max', 'max_response_time_seconds', 'pm', max, _MS),
    Metric('ttime_max', 'max_total_time_seconds', 'pm', max, _MS),
    Metric('dreq', 'requests_denied_total', 'lp', COUNTER),
    Metric('dresp', 'responses_denied_total', 'lpm', COUNTER),
    Metric('ereq', 'request_errors_total', 'l', COUNTER),
    Metric('econ', 'connection_errors_total', 'pm', COUNTER),
    Metric('eresp', 'response_errors_total', 'pm', COUNTER),
    Metric('wretr', 'retry_warnings_total', 'pm', COUNTER),
    Metric('wredis', 'redispatch_warnings_total', 'pm', COUNTER),
    Metric('dcon', 'denied_connections_total', 'l', COUNTER),
    Metric('dses', 'denied_sessions_total', 'l', COUNTER),
    Metric('wrew', 'failed_header_rewriting_total', 'lpm', COUNTER),
    Metric('cli_abrt', 'client_aborts_total', 'pm', COUNTER),
    Metric('srv_abrt', 'member_aborts_total', 'p', COUNTER),
    Metric('srv_abrt', 'server_aborts_total', 'm', COUNTER),
    Metric('act', 'active_members', 'p', _newest),
    Metric('bck', 'backup_members', 'p', _newest),
    Metric('weight', 'weight', 'm', _newest),
    Metric('lbtot', 'loadbalanced_total', 'pm', COUNTER),
    Metric('req_rate_max', 'http_requests_rate_max', 'l', max),
    Metric('req_tot', 'http_requests_total', 'lp', COUNTER),
    Metric('intercepted', 'intercepted_requests_total', 'l', COUNTER),
    Metric('cache_lookups', 'http_cache_lookups_total', 'lp', COUNTER),
    Metric('cache_hits', 'http_cache_hits_total', 'lp', COUNTER),
    Metric('comp_in', 'http_comp_bytes_in_total', 'lp', COUNTER),
    Metric('comp_out', 'http_comp_bytes_out_total', 'lp', COUNTER),
    Metric('comp_byp', 'http_comp_bytes_bypassed_total', 'lp', COUNTER),
    Metric('comp_rsp', 'http_comp_responses_total', 'lp', COUNTER),
    Metric('srv_icur', 'idle_connections_current', 'm', sum),
    Metric('src_ilim', 'idle_connections_limit', 'm', _newest),
)
# Columns of the metric http_responses_total, by its label "code".
RESPONSES = {'1xx': 'hrsp_1xx', '2xx': 'hrsp_2xx', '3xx': 'hrsp_3xx',
             '4xx': 'hrsp_4xx', '5xx': 'hrsp_5xx', 'other': 'hrsp_other'}
# Of the load balancer: sums over its listeners.
SUMS = (
    Metric('scur', 'current_connections', 'l', sum),
    Metric('conn_tot', 'connections_total', 'l', COUNTER),
    Metric('req_tot', 'requests_total', 'l', COUNTER),
)
OBJECTS = {'l': 'listener', 'p': 'pool', 'm': 'member'}
# Values of the label "state".
STATES = {'l': ('DOWN', 'UP'), 'p': ('DOWN', 'UP'),
          'm': ('DOWN', 'UP', 'MAINT', 'DRAIN', 'NOLB')}


def names() -> Iterable[str]:
    """Return the names of all metrics."""
    for metric in METRICS:
        for kind in metric.kinds:
            yield f'octavia_{OBJECTS[kind]}_{metric.name}'
    for kind in OBJECTS.values():
        yield f'octavia_{kind}_status'
        yield f'octavia_{kind}_http_responses_total'
    for metric in SUMS:
        yield f'octavia_loadbalancer_{metric.name}'
