# SPDX-License-Identifier: Apache-2.0
"""Documents of proxied load balancers as hypothesis generates them."""

from hypothesis import strategies as st

from octavia_xdp_provider.tests.support import proxied

NAMES = 'abcdef'
POOLS_OF = {'HTTP': ('HTTP', 'PROXY', 'PROXYV2'),
            'TERMINATED_HTTPS': ('HTTP', 'PROXY', 'PROXYV2'),
            'TCP': ('HTTP', 'HTTPS', 'PROXY', 'PROXYV2', 'TCP'),
            'HTTPS': ('HTTPS', 'PROXY', 'PROXYV2', 'TCP'), 'PROMETHEUS': ()}
VERSIONS = ['TLSv1', 'TLSv1.1', 'TLSv1.2', 'TLSv1.3']
CIPHERS = ('ECDHE-RSA-AES256-GCM-SHA384', 'AES128-SHA',
           'TLS_AES_128_GCM_SHA256', 'TLS_CHACHA20_POLY1305_SHA256')
HEADERS = ('X-Forwarded-For', 'X-Forwarded-Port', 'X-Forwarded-Proto',
           'X-Real-IP', 'X-Client-IP', 'X-Forwarded-IP')
TLS_HEADERS = ('X-SSL-Client-Verify', 'X-SSL-Client-Has-Cert', 'X-SSL-Issuer',
               'X-SSL-Client-DN', 'X-SSL-Client-CN', 'X-SSL-Client-SHA1',
               'X-SSL-Client-Not-Before', 'X-SSL-Client-Not-After')
COMPARE = ('REGEX', 'STARTS_WITH', 'ENDS_WITH', 'CONTAINS', 'EQUAL_TO')

# Values that Octavia's renderer writes correctly; test_hostile_values has the
# others.
PLAIN = st.text('ab09/.-_ \\', min_size=1, max_size=9)
PLAIN_REGEX = st.sampled_from((r'^/a.*\.b$', 'a b', r'(?i)\d+', '-m', '^$'))
PLAIN_URLS = st.sampled_from(('https://example.com/new?a=1', 'http://a:8080'))


def uuids(*names):
    return st.sampled_from([proxied.uuid_of(name) for name in names])


def bundles():
    return st.sampled_from([digit * 64 for digit in '0123'])


def several(strategy, least=0, most=3):
    return st.dictionaries(st.sampled_from(NAMES), strategy, min_size=least,
                           max_size=most)


def mostly():
    """Whether something is enabled."""
    return st.sampled_from((True, True, True, False))


@st.composite
def tls_fields(draw):
    """Ciphers, versions that follow one another, and ALPN."""
    first, last = sorted(draw(st.tuples(*2 * [st.integers(0, 3)])))
    return {
        'tls_ciphers': ':'.join(draw(st.lists(
            st.sampled_from(CIPHERS), min_size=1, unique=True))),
        'tls_versions': draw(st.sampled_from(
            (None, VERSIONS[first:last + 1]))),
        'alpn_protocols': draw(st.sampled_from(
            (None, ['h2', 'http/1.1'], ['http/1.0'])))}


def monitors():
    return st.fixed_dictionaries({
        'id': uuids('monitor'), 'admin_state_up': st.booleans(),
        'type': st.sampled_from(('HTTP', 'HTTPS', 'PING', 'TCP',
                                 'TLS-HELLO')),
        'delay': st.integers(1, 9), 'timeout': st.integers(1, 9),
        'max_retries': st.integers(1, 9), 'max_retries_down': st.just(3),
        'http_method': st.just('GET'), 'url_path': st.just('/x'),
        'expected_codes': st.just('200-202'),
        'http_version': st.sampled_from((1.0, 1.1)),
        'domain_name': st.sampled_from((None, 'example.com'))})


def members():
    return st.builds(
        proxied.member,
        address=st.sampled_from(('198.18.10.1', '198.18.10.2',
                                 '2001:db8:200::1')),
        admin_state_up=st.booleans(), backup=st.booleans(),
        protocol_port=st.integers(1, 65535), weight=st.integers(0, 256),
        monitor_address=st.sampled_from((None, '198.18.10.9')),
        monitor_port=st.sampled_from((None, 81)))


@st.composite
def pools(draw):
    protocol = draw(st.sampled_from(('HTTP', 'HTTPS', 'PROXY', 'PROXYV2',
                                     'TCP')))
    persistence = [None, {'type': 'SOURCE_IP', 'cookie_name': None}]
    if protocol == 'HTTP':
        persistence += [{'type': 'HTTP_COOKIE', 'cookie_name': None},
                        {'type': 'APP_COOKIE', 'cookie_name': 'JSESSIONID'}]
    fields = {
        'protocol': protocol, 'admin_state_up': draw(mostly()),
        'lb_algorithm': draw(st.sampled_from((
            'ROUND_ROBIN', 'LEAST_CONNECTIONS', 'SOURCE_IP',
            'SOURCE_IP_PORT'))),
        'session_persistence': draw(st.sampled_from(persistence)),
        'healthmonitor': draw(st.none() | monitors())}
    if draw(st.booleans()):
        fields.update(draw(tls_fields()), tls_enabled=True,
                      tls_bundle=draw(st.none() | bundles()),
                      ca_bundle=draw(st.none() | bundles()))
        if fields['ca_bundle']:
            fields['crl_bundle'] = draw(st.none() | bundles())
    return proxied.pool(draw(several(members(), 1)), **fields)


@st.composite
def rules(draw):
    kind = draw(st.sampled_from((
        'HOST_NAME', 'PATH', 'FILE_TYPE', 'HEADER', 'COOKIE',
        'SSL_CONN_HAS_CERT', 'SSL_VERIFY_RESULT', 'SSL_DN_FIELD')))
    compare = draw(st.sampled_from(
        ('REGEX', 'EQUAL_TO') if kind == 'FILE_TYPE' else COMPARE))
    value = draw(PLAIN_REGEX if compare == 'REGEX' else PLAIN)
    key = None
    if kind in ('SSL_CONN_HAS_CERT', 'SSL_VERIFY_RESULT'):
        compare = 'EQUAL_TO'
        value = {'SSL_CONN_HAS_CERT': 'True', 'SSL_VERIFY_RESULT': '23'}[kind]
    elif kind == 'SSL_DN_FIELD':
        key = 'CN'
    elif kind in ('HEADER', 'COOKIE'):
        key = draw(st.sampled_from(('X-Name', 'b')))
    return proxied.rule(kind, value, compare, key=key,
                        invert=draw(st.booleans()),
                        admin_state_up=draw(mostly()))


@st.composite
def policies(draw, pool_ids):
    actions = ['REJECT', 'REDIRECT_TO_URL', 'REDIRECT_PREFIX']
    if pool_ids:
        actions.append('REDIRECT_TO_POOL')
    action = draw(st.sampled_from(actions))
    target = {
        'REJECT': {}, 'REDIRECT_TO_POOL': {
            'redirect_pool_id': draw(st.sampled_from(pool_ids or [None]))},
        'REDIRECT_TO_URL': {'redirect_url': draw(PLAIN_URLS)},
        'REDIRECT_PREFIX': {'redirect_prefix': draw(PLAIN_URLS)}}[action]
    if action.startswith('REDIRECT') and action != 'REDIRECT_TO_POOL':
        target['redirect_http_code'] = draw(st.sampled_from((301, 302, 308)))
    prefix = str(draw(st.integers(0, 2 ** 60)))
    return proxied.policy(
        action, {prefix + name: rule
                 for name, rule in draw(several(rules())).items()},
        position=draw(st.integers(1, 5)),
        admin_state_up=draw(mostly()), **target)


@st.composite
def listeners(draw, all_pools):
    """A listener that uses some of the pools."""
    protocol = draw(st.sampled_from([*POOLS_OF, 'HTTP', 'TERMINATED_HTTPS']))
    usable = sorted(key for key, pool in all_pools.items()
                    if pool['protocol'] in POOLS_OF[protocol])
    is_http = protocol in ('HTTP', 'TERMINATED_HTTPS')
    milliseconds = st.none() | st.integers(1, 10 ** 6)
    fields = {name: draw(milliseconds) for name in (
        'timeout_client_data', 'timeout_member_connect',
        'timeout_member_data', 'timeout_tcp_inspect')}
    headers = HEADERS if is_http else ()
    if protocol == 'TERMINATED_HTTPS':
        headers += TLS_HEADERS
        fields.update(
            hsts_max_age=draw(st.none() | st.integers(0, 10 ** 6)),
            hsts_include_subdomains=draw(st.booleans()),
            hsts_preload=draw(st.booleans()))
    if protocol == 'TERMINATED_HTTPS' or (
            protocol == 'PROMETHEUS' and draw(st.booleans())):
        # Octavia renders no TLS for a listener that only has sni_bundles.
        fields.update(draw(tls_fields()), default_tls_bundle=draw(bundles()),
                      sni_bundles=draw(st.lists(bundles(), max_size=2)),
                      client_ca_bundle=draw(st.none() | bundles()))
        if fields['client_ca_bundle']:
            fields.update(
                client_authentication=draw(st.sampled_from(
                    ('NONE', 'OPTIONAL', 'MANDATORY'))),
                client_crl_bundle=draw(st.none() | bundles()))
    own = several(policies(usable))
    return proxied.listener(
        draw(own) if is_http else {}, protocol=protocol,
        admin_state_up=draw(mostly()),
        protocol_port=draw(st.integers(1, 65535)),
        default_pool_id=draw(st.sampled_from([*usable, *usable, None])),
        connection_limit=draw(st.none() | st.integers(1, 50000)),
        insert_headers=sorted(draw(st.sets(st.sampled_from(headers))))
        if headers else [], **fields)


@st.composite
def documents(draw):
    all_pools = {proxied.uuid_of(f'pool {name}'): pool
                 for name, pool in draw(several(pools(), 1)).items()}
    own = {f'listener {name}': listener for name, listener in draw(
        several(listeners(all_pools), 1, 2)).items()}
    return {**proxied.document(own), 'pools': all_pools,
            'additional_vips': draw(st.sampled_from(
                ([], ['2001:db8:100::10'])))}
