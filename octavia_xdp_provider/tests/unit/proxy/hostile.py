# SPDX-License-Identifier: Apache-2.0
"""Hostile values of fields that proxies' configurations have."""

from hypothesis import strategies as st

from octavia_xdp_provider.tests.support import proxied as documents

FRAGMENTS = (
    '\n', '\r\n', '\n\thttp-request return status 200', '\t', '\0', '\x7f',
    '\x85', '\u2028', '\ud800', "'", '"', "'\\''", '\\', '\\\\', '\\n', '#',
    '$HOME', '${X}', '%[src]', '%', '&amp;', '&#39;', '<', '(?a)', '(?u)',
    '(*UTF)', '(a)\\1', '(a+)+$', '[', ')', ' -f /etc/passwd', '-i', '--',
    ' if TRUE', ' or ', '{', '!', ',', ';', 'é', '🙂', 'x' * 300, 'x' * 3000)
VALUES = st.lists(
    st.sampled_from(FRAGMENTS) | st.text(max_size=5)
    | st.sampled_from(('a', '/', 'http://example.com/')),
    min_size=1, max_size=5).map(''.join)


def rule(kind, compare_type='EQUAL_TO', name='value', **more):
    def build(value):
        fields = {'value': 'x', **more, name: value}
        return documents.web({'p': documents.policy(rules={
            'r': documents.rule(kind, compare_type=compare_type, **fields)})})
    return build


def redirect(action, name):
    return lambda value: documents.web({'p': documents.policy(
        action, {'r': documents.rule()}, **{name: value})})


def pool(tls_ciphers=None, cookie=None):
    persistence = cookie is not None and {
        'type': 'APP_COOKIE', 'cookie_name': cookie}
    document = documents.web()
    for fields in document['pools'].values():
        fields.update(tls_enabled=True, tls_ciphers=tls_ciphers,
                      session_persistence=persistence or None)
    return document


# A tame value of the field, and what makes a document of any.
FIELDS = {
    **{f'{kind} {compare}': ('tame', rule(kind, compare, key=key))
       for kind, key in (('PATH', None), ('HOST_NAME', None),
                         ('FILE_TYPE', None), ('HEADER', 'X-A'),
                         ('COOKIE', 'c'), ('SSL_DN_FIELD', 'CN'))
       for compare in ('EQUAL_TO', 'REGEX')},
    'header': ('tame', rule('HEADER', name='key')),
    'cookie': ('tame', rule('COOKIE', name='key')),
    'subject': ('tame', rule('SSL_DN_FIELD', name='key')),
    'verify result': ('77', rule('SSL_VERIFY_RESULT')),
    'url': ('http://tame', redirect('REDIRECT_TO_URL', 'redirect_url')),
    'prefix': ('http://tame', redirect('REDIRECT_PREFIX', 'redirect_prefix')),
    'cookie of the application': ('tame', lambda value: pool(cookie=value)),
    'ciphers of a pool': ('AES128-SHA', lambda value: pool(tls_ciphers=value)),
    'ciphers of a listener': ('AES128-SHA', lambda value: documents.web(
        protocol='TERMINATED_HTTPS', default_tls_bundle='0' * 64,
        tls_ciphers=value)),
}
