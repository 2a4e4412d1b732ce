# SPDX-License-Identifier: Apache-2.0
"""A user's value is refused, or is one word of the configuration."""

import hypothesis
from hypothesis import strategies as st

from octavia_xdp_provider.api import proxied
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.proxy.render import load_balancer
from octavia_xdp_provider.tests.support import haproxy_words
from octavia_xdp_provider.tests.support import proxied as documents
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.proxy import octavia_text

SETTINGS = documents.render_settings()
FRAGMENTS = (
    '\n', '\r\n', '\n\thttp-request return status 200', '\t', '\0', '\x7f',
    '\x85', '\u2028', '\ud800', "'", '"', "'\\''", '\\', '\\\\', '\\n', '#',
    '$HOME', '${X}', '%[src]', '%', '&amp;', '&#39;', '<', '(?a)', '(?u)',
    '(*UTF)', '(a)\\1', '(a+)+$', '[', ')', ' -f /etc/passwd', '-i', '--',
    ' if TRUE', ' or ', '{', '!', ',', ';', 'é', '🙂', 'x' * 300, 'x' * 3000)
HOSTILE = st.lists(
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
    'ciphers of a pool': ('tame', lambda value: pool(tls_ciphers=value)),
    'ciphers of a listener': ('tame', lambda value: documents.web(
        protocol='TERMINATED_HTTPS', default_tls_bundle='0' * 64,
        tls_ciphers=value)),
}


def parsed(document):
    proxied.check(document)
    return haproxy_words.sections(load_balancer.render(document,
                                                       SETTINGS).text)


def replaced(sections, tame, value):
    """Return sections with another value in the place of a tame one."""
    return {name: [[value if word == tame else word.replace(
        f'({tame})', f'({value})') for word in words] for words in lines]
        for name, lines in sections.items()}


class TestHostileValues(base.TestCase):

    def serves_some(self, tame, build):
        """Check a field; return whether some hostile value was served."""
        expected = parsed(build(tame))
        served = []

        @hypothesis.settings(deadline=None, max_examples=100,
                             derandomize=True, database=None)
        @hypothesis.given(HOSTILE)
        def check(value):
            try:
                found = parsed(build(value))
            except errors.Refused as error:
                self.assertTrue(error.instead)
                return
            self.assertEqual(replaced(expected, tame, value), found)
            served.append(value)

        check()
        return bool(served)

    def test_each_value_is_refused_or_one_word(self):
        for name, (tame, build) in FIELDS.items():
            served = self.serves_some(tame, build)
            # Else the test would pass if all were refused.
            if name.endswith(('EQUAL_TO', 'REGEX')):
                self.assertTrue(served, name)

    def test_octavias_renderer_changes_what_ours_keeps(self):
        url = 'https://example.com/new?a=1&b=2'
        document = redirect('REDIRECT_TO_URL', 'redirect_url')(url)
        self.assertIn('a=1&amp;b=2', octavia_text.render(document,
                                                         SETTINGS.bundle))
        self.assertIn([url], [
            words[4:5] for lines in parsed(document).values()
            for words in lines if words[0] == 'redirect'])
        injected = rule('PATH', 'REGEX')('x\n\thttp-request return')
        self.assertIn('\n\thttp-request\\ return', octavia_text.render(
            injected, SETTINGS.bundle))
        self.assertRaises(errors.Refused, proxied.check, injected)
