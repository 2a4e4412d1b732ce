# SPDX-License-Identifier: Apache-2.0
"""A backend: a pool, as a listener uses it.

As in Octavia there is one for each listener of a pool, for time-outs and
inserted headers are the listener's. Its name is ``<pool id>:<listener id>``,
that of a server is the member's id.
"""

from collections.abc import Collection
import hashlib
import ipaddress

from octavia_xdp_provider.api import proxied
from octavia_xdp_provider.contracts import proxy_spec
from octavia_xdp_provider.proxy.render import quoting
from octavia_xdp_provider.proxy.render import settings as settings_
from octavia_xdp_provider.proxy.render import tls

# Octavia's defaults, in ms.
_CONNECT_MS = 5000
_MEMBER_DATA_MS = 50000
# Variable with the port that a client connects from.
SOURCE_PORT = 'sess.source_port'

# In HAProxy's hash, servers have 2^20 different numbers: it multiplies an id
# by 4096 in 32 bits.
_SERVER_IDS = 1 << 20

_BALANCE = {'ROUND_ROBIN': ['roundrobin'], 'LEAST_CONNECTIONS': ['leastconn'],
            'SOURCE_IP': ['source'],
            'SOURCE_IP_PORT': ['hash', f'src,concat(:,{SOURCE_PORT})']}
_HASHES = ('source', 'hash')

# Format of the value of each header, as Octavia writes it. Those of the
# client's address are not in Octavia's renderer, though in its API.
_HEADERS = {
    'X-Client-IP': '%[src]', 'X-Forwarded-IP': '%[src]', 'X-Real-IP': '%[src]',
    'X-Forwarded-Port': '%[dst_port]',
    'X-SSL-Client-CN': '%{+Q}[ssl_c_s_dn(cn)]',
    'X-SSL-Client-DN': '%{+Q}[ssl_c_s_dn]',
    'X-SSL-Client-Has-Cert': '%[ssl_c_used]',
    'X-SSL-Client-Not-After': '%{+Q}[ssl_c_notafter]',
    'X-SSL-Client-Not-Before': '%{+Q}[ssl_c_notbefore]',
    'X-SSL-Client-SHA1': '%{+Q}[ssl_c_sha1,hex]',
    'X-SSL-Client-Verify': '%[ssl_c_verify]',
    'X-SSL-Issuer': '%{+Q}[ssl_c_i_dn]',
}
_SCHEME = {'HTTP': 'http', 'TERMINATED_HTTPS': 'https'}


def lines(listener_id: str, listener: proxy_spec.Listener, pool_id: str,
          pool: proxy_spec.Pool, settings: settings_.Settings,
          down: Collection[str]) -> list[str]:
    """Return a section.

    :param down: ids of members whose checks fail. Servers have no checks of
        HAProxy's: the health checker's results come by the runtime API, which
        ends the maintenance that such a server begins in.
    """
    is_http = proxied.is_http(listener, pool)
    result = [quoting.heading('backend', f'{pool_id}:{listener_id}'),
              quoting.line('mode', 'http' if is_http else 'tcp')]
    if is_http:
        # Members see requests of several clients on a connection, but the
        # first of each client on one that is known to work.
        result.append(quoting.line('http-reuse', 'safe'))
    result += _balance_lines(pool)
    result += _cookie_lines(pool)
    if is_http:
        result += _header_lines(listener, pool)
    # All backup members take over together (Octavia's API, "backup").
    result += [quoting.line('option', 'allbackups'),
               quoting.line('timeout', 'connect',
                            listener['timeout_member_connect'] or _CONNECT_MS),
               quoting.line('timeout', 'server',
                            listener['timeout_member_data']
                            or _MEMBER_DATA_MS)]
    ids = server_ids(pool)
    for member_id, member in sorted(pool['members'].items()):
        result.append(quoting.line(
            'server', member_id, _endpoint(member), 'id', ids[member_id],
            *_server_words(member_id, member, pool, down),
            *_proxy_words(listener, pool), *tls.server_words(pool, settings)))
    return result


def uses_source_port(pool: proxy_spec.Pool) -> bool:
    return 'hash' in _balance(pool)


def _balance(pool: proxy_spec.Pool) -> list[str]:
    """Return how a member is chosen.

    Persistence by the client's address is a hash of it: nodes agree without
    shared state, and a reload forgets nothing. Weights count there as well.
    """
    persistence = pool['session_persistence']
    if persistence and persistence['type'] == 'SOURCE_IP':
        return _BALANCE['SOURCE_IP']
    return _BALANCE[pool['lb_algorithm']]


def _balance_lines(pool: proxy_spec.Pool) -> list[str]:
    balance = _balance(pool)
    result = [quoting.line('balance', *balance)]
    if balance[0] in _HASHES:
        # Another member moves only its share of clients. Without "avalanche"
        # neighbouring addresses would go to the same member.
        result.append(quoting.line('hash-type', 'consistent', 'sdbm',
                                   'avalanche'))
    return result


def _cookie_lines(pool: proxy_spec.Pool) -> list[str]:
    """Return the persistence by cookies: stateless, so that all nodes and
    processes agree.

    The application's cookie gets the member's id before its value on the way
    to the client, which is taken off again on the way back.
    """
    persistence = pool['session_persistence']
    if persistence and persistence['type'] == 'HTTP_COOKIE':
        return [quoting.line('cookie', 'SRV', 'insert', 'indirect', 'nocache')]
    if persistence and persistence['type'] == 'APP_COOKIE':
        return [quoting.line('cookie', persistence['cookie_name'] or '',
                             'prefix', 'nocache')]
    return []


def _header_lines(listener: proxy_spec.Listener, pool: proxy_spec.Pool
                  ) -> list[str]:
    """Return the headers to insert. As in Octavia, PROXY pools tell members
    the client's address and port by their own means, and have no headers with
    these."""
    result = []
    is_proxy = pool['protocol'] != 'HTTP'
    for header in listener['insert_headers']:
        if header == 'X-Forwarded-Proto':
            result.append(_set_header(header, _SCHEME[listener['protocol']]))
        elif not header.startswith('X-SSL-') and is_proxy:
            continue
        elif header == 'X-Forwarded-For':
            result.append(quoting.line('option', 'forwardfor'))
        else:
            result.append(_set_header(header, _HEADERS[header]))
    return result


def _set_header(name: str, value: str) -> str:
    return quoting.line('http-request', 'set-header', name, value)


def _endpoint(member: proxy_spec.Member) -> str:
    address = ipaddress.ip_address(proxy_spec.connected_address(member))
    return (f'[{address}]:{member["protocol_port"]}' if address.version == 6
            else f'{address}:{member["protocol_port"]}')


def _server_words(member_id: str, member: proxy_spec.Member,
                  pool: proxy_spec.Pool, down: Collection[str]
                  ) -> list[str]:
    words = ['weight', str(member['weight'])]
    persistence = pool['session_persistence']
    if persistence and persistence['type'] != 'SOURCE_IP':
        words += ['cookie', member_id]
    if member['backup']:
        words.append('backup')
    if member_id in down or not member['admin_state_up']:
        words.append('disabled')
    return words


def _proxy_words(listener: proxy_spec.Listener, pool: proxy_spec.Pool
                 ) -> list[str]:
    """Return which version of the PROXY protocol members are sent; with the
    common name of the client's certificate if there can be one."""
    if pool['protocol'] == 'PROXY':
        return ['send-proxy']
    if pool['protocol'] == 'PROXYV2':
        return ['send-proxy-v2-ssl-cn' if proxy_spec.has_tls(listener)
                else 'send-proxy-v2']
    return []


def server_ids(pool: proxy_spec.Pool) -> dict[str, int]:
    """Return the number of each member, from which HAProxy derives its place
    in the hash.

    It is a hash of address and port, so that all nodes agree, and neither a
    reload nor other members change it, but for the rare two with one hash.
    """
    result: dict[str, int] = {}
    used = set()
    for number, _address, member_id in sorted(
            (_number(_endpoint(member)), _endpoint(member), member_id)
            for member_id, member in pool['members'].items()):
        while number in used:
            number = number % (_SERVER_IDS - 1) + 1
        used.add(number)
        result[member_id] = number
    return result


def _number(endpoint: str) -> int:
    digest = hashlib.sha256(endpoint.encode()).digest()
    return int.from_bytes(digest[:8], 'big') % (_SERVER_IDS - 1) + 1
