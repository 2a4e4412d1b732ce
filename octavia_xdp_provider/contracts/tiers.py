# SPDX-License-Identifier: Apache-2.0
"""Which tier serves a listener: LB nodes' datapath alone, or proxy nodes.

The datapath serves a listener wherever it can do exactly what is asked. All
functions are pure.

A listener is proxied if

* its protocol is HTTP, TERMINATED_HTTPS or PROMETHEUS,
* it is of TCP or HTTPS, and a pool of it has protocol HTTP, PROXY or PROXYV2,
  does TLS to members, or has persistence by a cookie, or
* it is of TCP or HTTPS, the flavor leaves ``forwarding`` open, members are no
  VMs behind hypervisors, and it has a ``connection_limit``, or a pool of it
  has an algorithm that is not served by a hash; or ``forwarding`` is "proxy".
"""

from collections.abc import Iterator

from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.contracts import spec

DATAPATH = 'datapath'
PROXY = 'proxy'

PROXIED_PROTOCOLS = ('HTTP', 'TERMINATED_HTTPS', 'PROMETHEUS')
_EITHER = ('TCP', 'HTTPS')
_PROXIED_POOLS = ('HTTP', 'PROXY', 'PROXYV2')
_COOKIES = ('HTTP_COOKIE', 'APP_COOKIE')


def tier(doc: spec.Document, listener_id: str) -> str:
    """Return DATAPATH or PROXY."""
    return PROXY if cause(doc, doc['listeners'][listener_id]) else DATAPATH


def cause(doc: spec.Document, listener: spec.Listener
          ) -> tuple[str, object] | None:
    """Return name and value of the option for which a listener needs proxy
    nodes, or None."""
    protocol = listener['protocol']
    if protocol in PROXIED_PROTOCOLS:
        return 'protocol', protocol
    if protocol not in _EITHER:
        return None
    return _cause(doc, spec.pools_of(doc, listener),
                  listener['connection_limit'])


def pool_cause(doc: spec.Document, pool: spec.Pool
               ) -> tuple[str, object] | None:
    """Return name and value of the option for which a pool would need proxy
    nodes if a listener used it, or None."""
    if pool['protocol'] in ('UDP', 'SCTP'):
        return None
    return _cause(doc, [pool], None)


def _cause(doc: spec.Document, pools: list[spec.Pool], limit: int | None
           ) -> tuple[str, object] | None:
    for pool in pools:
        if pool['protocol'] in _PROXIED_POOLS:
            return 'protocol', pool['protocol']
        if pool.get('tls_enabled'):
            return 'tls_enabled', True
        persistence = pool['session_persistence']
        if persistence and persistence['type'] in _COOKIES:
            return 'session_persistence', persistence['type']
    return _choice(doc, pools, limit)


def _choice(doc: spec.Document, pools: list[spec.Pool], limit: int | None
            ) -> tuple[str, object] | None:
    """Return the cause of a listener that the datapath can serve, though not
    exactly as asked."""
    forwarding = doc['flavor'].get('forwarding')
    if forwarding == PROXY:
        return 'forwarding', forwarding
    if forwarding is not None or spec.is_zero_touch(doc):
        return None
    by_hash = flavor.value(doc['flavor'], 'algorithms_served_by_hash')
    for pool in pools:
        algorithm = pool['lb_algorithm']
        if algorithm not in flavor.ALGORITHMS and algorithm not in by_hash:
            return 'lb_algorithm', algorithm
    if limit:
        return 'connection_limit', limit
    return None


def proxied_listeners(doc: spec.Document) -> list[str]:
    """Return the ids of the listeners that proxy nodes serve, sorted."""
    return sorted(key for key, listener in doc['listeners'].items()
                  if cause(doc, listener))


def needs_proxies(doc: spec.Document) -> bool:
    return any(cause(doc, listener) for listener in doc['listeners'].values())


def causes(doc: spec.Document) -> Iterator[tuple[str, object]]:
    """Yield name and value of each option that needs proxy nodes."""
    for listener in doc['listeners'].values():
        needed = cause(doc, listener)
        if needed:
            yield needed


def pool_ids(doc: spec.Document, proxied: bool) -> set[str]:
    """Return the ids of pools that listeners of a tier send traffic to."""
    wanted: set[str | None] = set()
    for listener in doc['listeners'].values():
        if bool(cause(doc, listener)) is proxied:
            wanted.add(listener['default_pool_id'])
            wanted |= {policy['redirect_pool_id'] for policy
                       in listener.get('l7policies', {}).values()}
    return {key for key in doc['pools'] if key in wanted}
