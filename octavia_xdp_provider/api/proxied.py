# SPDX-License-Identifier: Apache-2.0
"""Which documents of proxied load balancers are supported.

The rules here span fields and objects of a document (contracts/proxy_spec.py);
those of single values are in api/l7.py. What is refused is named as users
name it: a certificate by its container_ref, for example.
"""

from collections.abc import Iterator

from octavia_xdp_provider.api import l7
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import proxy_spec

# Octavia's VALID_LISTENER_POOL_PROTOCOL_MAP.
POOLS_OF_LISTENERS: dict[str, tuple[str, ...]] = {
    'HTTP': ('HTTP', 'PROXY', 'PROXYV2'),
    'TERMINATED_HTTPS': ('HTTP', 'PROXY', 'PROXYV2'),
    'TCP': ('HTTP', 'HTTPS', 'PROXY', 'PROXYV2', 'TCP'),
    'HTTPS': ('HTTPS', 'PROXY', 'PROXYV2', 'TCP'),
    'PROMETHEUS': (),
}
_HTTP = ('HTTP', 'TERMINATED_HTTPS')
_MAY_DO_TLS = ('TERMINATED_HTTPS', 'PROMETHEUS')
_COOKIES = ('HTTP_COOKIE', 'APP_COOKIE')

# The path of an object, and what is wrong with one of its fields, if anything.
_Checks = Iterator[tuple[str, l7.FieldProblem | None]]


def is_http(listener: proxy_spec.Listener, pool: proxy_spec.Pool) -> bool:
    """Return whether a proxy reads the requests that a listener sends to a
    pool. As in Octavia, PROXY pools carry what the listener carries, and
    others what their own protocol says."""
    if pool['protocol'] in ('PROXY', 'PROXYV2'):
        return listener['protocol'] in _HTTP
    return pool['protocol'] == 'HTTP'


def check(document: proxy_spec.Document) -> None:
    """Check a document.

    :raises Refused: names the path of the first field that is refused.
    """
    proxy_spec.check(document)
    for path, field_problem in _checks(document):
        if field_problem:
            name, problem = field_problem
            raise errors.Refused(f'{path}.{name}', *problem)


def _checks(document: proxy_spec.Document) -> _Checks:
    for key, pool in sorted(document['pools'].items()):
        path = f'pools.{key}'
        yield path, _persistence_problem(pool)
        yield path, _pool_tls_problem(pool)
    for key, listener in sorted(document['listeners'].items()):
        path = f'listeners.{key}'
        yield path, _listener_problem(listener)
        yield path, _listener_tls_problem(listener)
        yield path, _target_problem(document, listener, 'default_pool_id',
                                    listener['default_pool_id'])
        for policy_id, policy in sorted(listener['l7policies'].items()):
            yield from _policy_checks(
                document, listener, policy, f'{path}.l7policies.{policy_id}')


def _policy_checks(document: proxy_spec.Document,
                   listener: proxy_spec.Listener, policy: proxy_spec.Policy,
                   path: str) -> _Checks:
    yield path, l7.policy_problem(policy)
    yield path, _target_problem(document, listener, 'redirect_pool_id',
                                policy['redirect_pool_id'])
    for key, rule in sorted(policy['rules'].items()):
        yield f'{path}.rules.{key}', l7.rule_problem(rule)


def _target_problem(document: proxy_spec.Document,
                    listener: proxy_spec.Listener, name: str,
                    pool_id: str | None) -> l7.FieldProblem | None:
    """Check that a listener can send requests to a pool, if it names one."""
    if pool_id is None:
        return None
    pool = document['pools'].get(pool_id)
    if pool is None:
        return name, (f'the load balancer has no pool {pool_id}',
                      'name one of its pools')
    allowed = POOLS_OF_LISTENERS[listener['protocol']]
    if pool['protocol'] not in allowed:
        return name, (
            f'the pool\'s protocol is {pool["protocol"]} and the listener\'s '
            f'{listener["protocol"]}', 'use a pool with protocol '
            f'{" or ".join(allowed)}' if allowed else 'leave it out')
    persistence = pool['session_persistence']
    if persistence and persistence['type'] in _COOKIES and not is_http(
            listener, pool):
        return name, (
            f'the pool\'s session persistence is {persistence["type"]}, and '
            f'connections of a listener with protocol {listener["protocol"]} '
            'to it have no cookies that a proxy reads',
            'use session persistence SOURCE_IP, or a listener with protocol '
            'HTTP or TERMINATED_HTTPS')
    return None


def _persistence_problem(pool: proxy_spec.Pool) -> l7.FieldProblem | None:
    persistence = pool['session_persistence']
    if not persistence:
        return None
    name = 'session_persistence'
    cookie = persistence['cookie_name']
    problem: errors.Problem | None
    if persistence['type'] == 'APP_COOKIE':
        problem = (l7.token_problem(cookie) if cookie else (
            'it is missing', 'name the cookie of the application'))
    else:
        problem = (f'it has no meaning with type {persistence["type"]}',
                   'leave it out') if cookie else None
    return problem and (name, (f'its cookie_name: {problem[0]}', problem[1]))


def _listener_problem(listener: proxy_spec.Listener
                      ) -> l7.FieldProblem | None:
    protocol = listener['protocol']
    given = {'insert_headers': listener['insert_headers'],
             'l7policies': listener['l7policies']}
    for name, value in given.items():
        if value and protocol not in _HTTP:
            return name, (
                f'a listener with protocol {protocol} does not read or change '
                'requests', 'use protocol HTTP or TERMINATED_HTTPS')
    if listener['hsts_max_age'] is not None and (
            protocol != 'TERMINATED_HTTPS'):
        return 'hsts_max_age', (
            f'a listener with protocol {protocol} does not do HTTPS',
            'use protocol TERMINATED_HTTPS')
    if protocol != 'TERMINATED_HTTPS':
        for header in listener['insert_headers']:
            if header.startswith('X-SSL-'):
                return 'insert_headers', (
                    f'{header} is about the certificate of a client, and a '
                    f'listener with protocol {protocol} reads none',
                    'use protocol TERMINATED_HTTPS')
    return None


def _listener_tls_problem(listener: proxy_spec.Listener
                          ) -> l7.FieldProblem | None:
    protocol = listener['protocol']
    if proxy_spec.has_tls(listener):
        if protocol not in _MAY_DO_TLS:
            return 'default_tls_container_ref', (
                f'a listener with protocol {protocol} does not do TLS',
                'use protocol TERMINATED_HTTPS')
    elif protocol == 'TERMINATED_HTTPS' or listener['client_ca_bundle']:
        return 'default_tls_container_ref', (
            'a listener that does TLS needs a certificate',
            'name one in default_tls_container_ref')
    if listener['client_authentication'] != 'NONE' and (
            not listener['client_ca_bundle']):
        return 'client_authentication', (
            'there is no CA to check clients\' certificates with',
            'name one in client_ca_tls_container_ref')
    if listener['client_crl_bundle'] and not listener['client_ca_bundle']:
        return 'client_crl_container_ref', (
            'a CRL has no meaning without the CA that issued it',
            'name the CA in client_ca_tls_container_ref')
    return _tls_problem(listener)


def _pool_tls_problem(pool: proxy_spec.Pool) -> l7.FieldProblem | None:
    if pool['crl_bundle'] and not pool['ca_bundle']:
        return 'crl_container_ref', (
            'a CRL has no meaning without the CA that issued it',
            'name the CA in ca_tls_container_ref')
    return _tls_problem(pool)


def _tls_problem(given: proxy_spec.Listener | proxy_spec.Pool
                 ) -> l7.FieldProblem | None:
    ciphers, versions = given['tls_ciphers'], given['tls_versions']
    for name, problem in (
            ('tls_ciphers', None if ciphers is None
             else l7.ciphers_problem(ciphers)),
            ('tls_versions', None if versions is None
             else l7.versions_problem(versions))):
        if problem:
            return name, problem
    return None
