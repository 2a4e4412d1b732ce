# SPDX-License-Identifier: Apache-2.0
"""The check of a member, from the health monitor of its pool."""

from typing import TypedDict

from octavia_xdp_provider.contracts import expected_codes
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.health import checks


class Target(TypedDict):
    """The fields of a member that decide where it is probed."""

    address: str
    protocol_port: int
    monitor_address: str | None
    monitor_port: int | None


def check(monitor: spec.HealthMonitor, member: Target
          ) -> checks.Check:
    """Return the check of a member by its pool's health monitor."""
    kind = monitor['type']
    http = tls = None
    if kind in ('HTTP', 'HTTPS'):
        http = checks.HttpOptions(
            method=monitor['http_method'], path=monitor['url_path'],
            version=f'{float(monitor["http_version"]):.1f}',
            host=monitor['domain_name'],
            expected_codes=expected_codes.parse(
                monitor['expected_codes']))
    if kind in ('HTTPS', 'TLS-HELLO'):
        tls = checks.TlsOptions.for_host(monitor['domain_name'])
    return checks.Check(
        type=kind.lower(),
        address=member['monitor_address'] or member['address'],
        port=member['monitor_port'] or member['protocol_port'],
        delay=monitor['delay'], timeout=monitor['timeout'],
        rise=monitor['max_retries'], fall=monitor['max_retries_down'],
        http=http, tls=tls)
