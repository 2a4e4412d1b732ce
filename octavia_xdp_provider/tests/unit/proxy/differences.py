# SPDX-License-Identifier: Apache-2.0
"""Where a configuration of ours differs from Octavia's on purpose, and why.

``DIFFERENCES`` is the one list of them. Each takes a directive out of ours or
Octavia's, or rewrites Octavia's as ours; what is left has to be equal.
"""

import collections
import ipaddress

# Takes the section's words, a directive, all sections and the document;
# returns a directive, or None in place of one that is left out.
Difference = collections.namedtuple('Difference', 'reason ours octavias')

_VERSIONS = {'sslv3': 'SSLv3', 'tlsv10': 'TLSv1.0', 'tlsv11': 'TLSv1.1',
             'tlsv12': 'TLSv1.2', 'tlsv13': 'TLSv1.3'}
_NAMES = list(_VERSIONS.values())


def keep(section, directive, sections, document):
    return directive


def without(*starts, kind=None):
    """Leave directives with these first words out."""
    def change(section, directive, sections, document):
        left_out = kind in (None, section[0]) and any(
            directive[:len(start)] == start
            for start in (tuple(text.split()) for text in starts))
        return None if left_out else directive
    return change


def without_options(kind, *names):
    """Leave options of "server" or "bind" out."""
    def change(section, directive, sections, document):
        if directive[0] != kind or not isinstance(directive[-1], dict):
            return directive
        return (*directive[:-1], {
            name: value for name, value in directive[-1].items()
            if name not in names})
    return change


def options(change_options):
    """Change the options of each "server" and "bind"."""
    def change(section, directive, sections, document):
        if not isinstance(directive[-1], dict):
            return directive
        return (*directive[:-1], change_options(dict(directive[-1])))
    return change


def _pool(section, document):
    return document['pools'][section[1].partition(':')[0]]


def _persistence(section, document):
    return (_pool(section, document)['session_persistence'] or {}).get('type')


def _unused_acl(section, directive, sections, document):
    used = {word.removeprefix('!') for other in sections[section]
            if 'if' in other for word in other[other.index('if'):]}
    is_unused = directive[0] == 'acl' and directive[1] not in used
    return None if is_unused else directive


def _balance(section, directive, sections, document):
    if directive[0] != 'balance' or ':' not in section[1]:
        return directive
    if _persistence(section, document) == 'SOURCE_IP':
        return 'balance', 'source'
    if _pool(section, document)['lb_algorithm'] == 'SOURCE_IP_PORT':
        return 'balance', 'hash', 'src,concat(:,sess.source_port)'
    return directive


def _stick(section, directive, sections, document):
    if directive[0] == 'stick-table' and (
            _persistence(section, document) == 'APP_COOKIE'):
        return 'cookie', 'JSESSIONID', 'prefix', 'nocache'
    return None if directive[0] in ('stick-table', 'stick') else directive


def _app_cookie(section, directive, sections, document):
    if directive[0] == 'server' and (
            _persistence(section, document) == 'APP_COOKIE'):
        return (*directive[:-1], {**directive[-1], 'cookie': directive[1]})
    return directive


def _address(section, directive, sections, document):
    if directive[0] == 'bind':
        return 'bind', '', directive[-1]
    return directive


def _brackets(section, directive, sections, document):
    if directive[0] != 'server' or not isinstance(directive[-1], dict):
        return directive
    address, _, port = directive[2].rpartition(':')
    if ipaddress.ip_address(address).version == 6:
        address = f'[{address}]'
    return (*directive[:2], f'{address}:{port}', directive[-1])


def _limits(given):
    """Rewrite versions that are off as the first and last that are on."""
    off = [name for word, name in _VERSIONS.items() if given.pop(
        f'no-{word}', False)]
    if off:
        on = [name for name in _NAMES if name not in off]
        given.update({'ssl-min-ver': on[0], 'ssl-max-ver': on[-1]})
    return given


def _old_ciphers(given):
    if given.get('ssl-min-ver') in ('TLSv1.0', 'TLSv1.1'):
        given['ciphers'] = given.get('ciphers', 'DEFAULT') + ':@SECLEVEL=0'
    return given


def _sorted_ciphers(given):
    for name in 'ciphers', 'ciphersuites':
        if name in given:
            given[name] = ':'.join(sorted(given[name].split(':')))
    return given


def _verify(given):
    if 'ca-file' in given:
        given.setdefault('verify', 'required')
    return given


def _metrics(section, directive, sections, document):
    if directive == ('default_backend', 'prometheus-exporter-internal'):
        return 'default_backend', 'metrics'
    return directive


def _own_headers(section, directive, sections, document):
    mine = directive[:2] == ('http-request', 'set-header') and (
        directive[2] in ('X-Real-IP', 'X-Client-IP', 'X-Forwarded-IP'))
    return None if mine else directive


DIFFERENCES = [
    Difference(
        'sockets are inherited, so that no client is refused in a reload or a '
        'crash', _address, _address),
    Difference(
        'a launcher starts HAProxy as its own user, limits it, and may set '
        'states of servers',
        without('master-worker', 'mworker-max-reloads', 'hard-stop-after',
                'nbthread', 'stats socket', 'tune.ssl.cachesize',
                kind='global'),
        without('daemon', 'user', 'log', 'stats socket', 'external-check',
                'server-state-file', 'insecure-fork-wanted', kind='global')),
    Difference(
        'connections of all listeners are limited by what the node grants, '
        'too', without('maxconn', kind='global'),
        without('maxconn', kind='global')),
    Difference(
        'so each listener counts those of all, and probes have room',
        without(*(f'tcp-request connection {words}' for words in (
            'set-var(sess.clients)', 'unset-var(sess.clients)', 'reject'))),
        keep),
    Difference(
        'idle connections are closed with an answer, so that a reload fails '
        'no request', without('option idle-close-on-response'), keep),
    Difference(
        'the health checker of the node checks members', keep,
        without('timeout check', 'option httpchk', 'http-check',
                'option external-check', 'external-check',
                'load-server-state-from-file')),
    Difference(
        'so servers have no options of checks', keep,
        without_options('server', 'check', 'check-ssl', 'check-alpn', 'inter',
                        'fall', 'rise', 'addr', 'port')),
    Difference(
        'nodes choose one member without shared state: a hash has the same '
        'servers at the same places', without('hash-type'), keep),
    Difference('the places come from the servers\' numbers',
               without_options('server', 'id'), keep),
    Difference(
        'persistence by the client\'s address is a hash of it, and '
        'SOURCE_IP_PORT, which amphorae lack, one of address and port',
        without('tcp-request connection set-var(sess.source_port)'),
        _balance),
    Difference(
        'an application\'s cookie is prefixed with the member: no table that '
        'nodes would have to share', keep, _stick),
    Difference('so servers have the prefix', keep, _app_cookie),
    Difference(
        'fullconn has a meaning with minconn alone', keep,
        without('fullconn')),
    Difference(
        'a listener that does TLS has no connection without it', keep,
        without('redirect scheme https')),
    Difference('a condition that nothing names is not written', keep,
               _unused_acl),
    Difference(
        'a value that begins with "-" is no flag',
        lambda section, directive, *_: directive if directive[0] != 'acl'
        else tuple(word for index, word in enumerate(directive)
                   if word != '--' or index == len(directive) - 1), keep),
    Difference(
        'the address of a client is inserted by the names that Octavia\'s API '
        'has and its renderer lacks', _own_headers, keep),
    Difference('IPv6 addresses are told from their port by brackets', keep,
               _brackets),
    Difference(
        'tickets resume TLS sessions on all nodes',
        without_options('bind', 'tls-ticket-keys'), keep),
    Difference(
        'lists of certificates are where the launcher writes them',
        without_options('bind', 'crt-list'),
        without_options('bind', 'crt-list')),
    Difference('they name files in their own directory',
               without('crt-base', kind='global'), keep),
    Difference(
        'HAProxy has TLS 1.2 and newer if only some versions are switched '
        'off', keep, options(_limits)),
    Difference('OpenSSL 3 has TLS below 1.2 at its lowest level alone', keep,
               options(_old_ciphers)),
    Difference('ciphers keep the order that the user prefers',
               options(_sorted_ciphers), options(_sorted_ciphers)),
    Difference(
        'members\' certificates are checked if there is a CA: by default, but '
        'Octavia\'s "check-ssl verify none" of HTTPS monitors ends that', keep,
        options(_verify)),
    Difference('a process that has the sums of all nodes answers PROMETHEUS '
               'listeners', keep, _metrics),
]
# Sections of one of both. HAProxy itself answers LB nodes' probes, and another
# process the readers of metrics.
SECTIONS = (('frontend', 'health'), ('backend', 'metrics'),
            ('frontend', 'prometheus-exporter-internal-endpoint'),
            ('backend', 'prometheus-exporter-internal'))


def apply(ours, octavias, document, but=None):
    """Return both without the intended differences.

    :param but: a difference that is not applied.
    """
    for difference in DIFFERENCES:
        if difference is not but:
            ours = _changed(ours, difference.ours, document)
            octavias = _changed(octavias, difference.octavias, document)
    return ours, octavias


def _changed(sections, change, document):
    result = {}
    for name, directives in sections.items():
        changed = [change(name, directive, sections, document)
                   for directive in directives]
        result[name] = [directive for directive in changed
                        if directive is not None]
    return result

