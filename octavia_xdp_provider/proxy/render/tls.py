# SPDX-License-Identifier: Apache-2.0
"""TLS: options of listening sockets and of servers."""

from octavia_xdp_provider.api import l7
from octavia_xdp_provider.contracts import proxy_spec
from octavia_xdp_provider.proxy.render import settings as settings_

# Octavia's values of client_authentication.
_VERIFY = {'NONE': 'none', 'OPTIONAL': 'optional', 'MANDATORY': 'required'}
_VERSIONS = {'TLSv1': 'TLSv1.0', 'TLSv1.1': 'TLSv1.1', 'TLSv1.2': 'TLSv1.2',
             'TLSv1.3': 'TLSv1.3'}
_ORDER = tuple(_VERSIONS)
# OpenSSL 3 has these below its default level of security alone.
_OLD = ('TLSv1', 'TLSv1.1')
# From this version on HAProxy offers h2 and http/1.1 unless told otherwise.
_ALPN_BY_DEFAULT = (2, 8)


def listener_words(listener_id: str, listener: proxy_spec.Listener,
                   settings: settings_.Settings) -> list[str]:
    """Return what follows the address of a listening socket."""
    if not proxy_spec.has_tls(listener):
        return []
    words = ['ssl', 'crt-list', settings.certificate_list(listener_id),
             'tls-ticket-keys', settings.ticket_keys()]
    if listener['client_ca_bundle']:
        words += ['ca-file', settings.bundle(listener['client_ca_bundle']),
                  'verify', _VERIFY[listener['client_authentication']]]
    if listener['client_crl_bundle']:
        words += ['crl-file', settings.bundle(listener['client_crl_bundle'])]
    words += _protocol_words(listener)
    if not listener['alpn_protocols'] and settings.haproxy >= _ALPN_BY_DEFAULT:
        words.append('no-alpn')
    return words


def certificate_list(listener: proxy_spec.Listener) -> str:
    """Return the file of a listener's certificates, by their names in its
    own directory (``crt-base``).

    HAProxy takes the first one for names that it has no certificate of.
    """
    bundles = list(dict.fromkeys(filter(None, (
        listener['default_tls_bundle'], *listener['sni_bundles']))))
    return ''.join(f'{settings_.bundle_file(bundle)}\n' for bundle in bundles)


def server_words(pool: proxy_spec.Pool, settings: settings_.Settings
                 ) -> list[str]:
    """Return how connections to a pool's members are encrypted.

    As in Octavia, a member's certificate is checked if the pool has a CA, but
    the host's name in it is not.
    """
    if not pool['tls_enabled']:
        return []
    words = ['ssl', 'sni', 'ssl_fc_sni']
    if pool['tls_bundle']:
        words += ['crt', settings.bundle(pool['tls_bundle'])]
    if pool['ca_bundle']:
        words += ['verify', 'required',
                  'ca-file', settings.bundle(pool['ca_bundle'])]
    else:
        words += ['verify', 'none']
    if pool['crl_bundle']:
        words += ['crl-file', settings.bundle(pool['crl_bundle'])]
    return words + _protocol_words(pool)


def _protocol_words(given: proxy_spec.Listener | proxy_spec.Pool
                    ) -> list[str]:
    """Return ciphers, versions and ALPN.

    Octavia has one list of ciphers, HAProxy one up to TLS 1.2 and another one
    for TLS 1.3. A list for versions that are off is left out, as in Octavia.
    """
    words = []
    versions = given['tls_versions']
    ciphers, suites = l7.split_ciphers(given['tls_ciphers'] or '')
    if versions is not None and any(name in versions for name in _OLD):
        ciphers = f'{ciphers or "DEFAULT"}:@SECLEVEL=0'
    if ciphers and (versions is None or set(versions) != {'TLSv1.3'}):
        words += ['ciphers', ciphers]
    if suites and (versions is None or 'TLSv1.3' in versions):
        words += ['ciphersuites', suites]
    if versions is not None:
        ordered = sorted(versions, key=_ORDER.index)
        words += ['ssl-min-ver', _VERSIONS[ordered[0]],
                  'ssl-max-ver', _VERSIONS[ordered[-1]]]
    if given['alpn_protocols']:
        words += ['alpn', ','.join(given['alpn_protocols'])]
    return words
