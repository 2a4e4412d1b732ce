# SPDX-License-Identifier: Apache-2.0
"""The checks of a load balancer's members, from its document."""

import dataclasses
from typing import Any

from octavia_xdp_provider.contracts import proxy_spec
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.health import checks
from octavia_xdp_provider.health import checks_file
from octavia_xdp_provider.health import monitors

# How a member that speaks TLS is probed, as HAProxy itself would do it.
_WITH_TLS = {'HTTP': 'HTTPS', 'TCP': 'TLS-HELLO'}
_PROXY_VERSIONS = {'PROXY': 1, 'PROXYV2': 2}


@dataclasses.dataclass(frozen=True)
class Plan:
    """:ivar file: contents of the checks file; None without checks.
    :ivar monitored: key of the check of each member that has one, by id.
    :ivar enabled: ids of members that may get requests.
    :ivar disabled: ids of members that may not, whatever their health.
    """

    file: dict[str, Any] | None
    monitored: dict[str, int]
    enabled: frozenset[str]
    disabled: frozenset[str]


def plan(document: proxy_spec.Document, keys: checks.Keys) -> Plan:
    """Return the plan of a load balancer.

    As on LB nodes, only pools that a listener uses are probed.

    :raises ChecksFileError: the health checker would refuse a check.
    """
    wanted: list[checks.Check] = []
    monitored: dict[str, int] = {}
    enabled, disabled = set(), set()
    for pool in _pools_in_use(document):
        monitor = pool['healthmonitor']
        for member_id, member in pool['members'].items():
            if not member['admin_state_up']:
                disabled.add(member_id)
                continue
            enabled.add(member_id)
            if monitor and monitor['admin_state_up']:
                check = _check(monitor, pool, member)
                wanted.append(check)
                monitored[member_id] = int(keys.of(check), 16)
    return Plan(
        checks_file.build_document(wanted, keys=keys) if wanted else None,
        monitored, frozenset(enabled), frozenset(disabled))


def _pools_in_use(document: proxy_spec.Document) -> list[proxy_spec.Pool]:
    if not document['admin_state_up']:
        return []
    return list({
        key: pool for listener in document['listeners'].values()
        if listener['admin_state_up']
        for key, pool in proxy_spec.pools_of(document, listener)
        if pool['admin_state_up']}.values())


def _check(monitor: spec.HealthMonitor, pool: proxy_spec.Pool,
           member: proxy_spec.Member) -> checks.Check:
    """Return a member's check.

    Connections to a pool with TLS are probed with TLS, and those to a PROXY
    pool with the header of the PROXY protocol, unless another address or port
    is probed: HAProxy's own checks do the same, as Octavia configures them. A
    VM behind a hypervisor has no other address than its own
    (api/zero_touch.py), for which its token stands.
    """
    if 'token' in member:
        member = {**member, 'address': member['token'],
                  'monitor_address': None}
    if member['monitor_address'] or member['monitor_port']:
        return monitors.check(monitor, member)
    if pool['tls_enabled']:
        kind: Any = _WITH_TLS.get(monitor['type'], monitor['type'])
        monitor = {**monitor, 'type': kind}
    check = monitors.check(monitor, member)
    if check.type == 'ping':
        return check
    return dataclasses.replace(
        check, proxy_protocol=_PROXY_VERSIONS.get(pool['protocol']))
