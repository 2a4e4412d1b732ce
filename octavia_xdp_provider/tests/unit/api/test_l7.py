# SPDX-License-Identifier: Apache-2.0
"""Values of layer-7 objects that are served, and those that are refused."""

import re

from octavia_xdp_provider.api import l7
from octavia_xdp_provider.tests.support import proxied
from octavia_xdp_provider.tests.unit import base


class TestValues(base.TestCase):

    def assert_values(self, check, served, refused):
        for value in served:
            self.assertIsNone(check(value), value)
        for value, words in refused.items():
            why, instead = check(value)
            self.assertIn(words, why)
            self.assertTrue(instead)

    def test_control_characters_are_refused_in_every_text(self):
        hostile = ('a\nb', 'a\r', '\tb', 'a\0b', 'a\x7fb', 'a\x85b', '\ud800')
        for check in (l7.text_problem, l7.regex_problem, l7.url_problem,
                      l7.token_problem, l7.subject_field_problem,
                      l7.ciphers_problem):
            for value in hostile:
                self.assertIsNotNone(check(value), (check, value))
        for kind in ('PATH', 'HOST_NAME', 'HEADER', 'COOKIE', 'FILE_TYPE',
                     'SSL_DN_FIELD'):
            for value in hostile:
                rule = proxied.rule(kind, value, 'REGEX', key='a')
                self.assertEqual('value', l7.rule_problem(rule)[0])

    def test_texts(self):
        self.assert_values(
            l7.text_problem,
            ("a b 'c' \"d\" \\ # $x &lt; <", 'é 中 🙂', 'x' * 2048),
            {'': 'empty', 'x' * 2049: '2049 characters',
             'ab\nc': 'character 3 is U+000A'})

    def test_regular_expressions_that_haproxy_refuses(self):
        # Python accepts them all, and so does Octavia.
        refused = {'(?a)x': '(?', '(?u)x': '(?', r'(a)\1': 'non-existent',
                   r'\u00e9': 'support'}
        for value in refused:
            re.compile(value)
        self.assert_values(
            l7.regex_problem,
            ('^/(a+)+$', r'\.(jpg|png)$', r'(?<n>a)\k<n>', '(?i)x', 'é',
             "it's #1", 'a{2,3}', r'\d\w\S', 'a++', '(?s:.)', '[[:alpha:]]'),
            {**refused, '(*UTF)x': 'using UTF', '(a': 'parenthes',
             '(' * 300 + ')' * 300: 'nested'})

    def test_urls(self):
        self.assert_values(
            l7.url_problem,
            ('https://example.com/new?a=1&b=2', 'http://[2001:db8::1]:8080',
             "https://example.com/it's#part", 'https://a/%20'),
            {'/new': 'scheme', 'ftp://a/': 'scheme', 'https:///x': 'scheme',
             'https://a b/': 'spaces', 'https://é/': 'ASCII',
             'https://a:port/': 'scheme', 'https://[::1/': 'scheme'})

    def test_names_of_headers_and_cookies(self):
        self.assert_values(
            l7.token_problem, ('JSESSIONID', 'x-a.b_c', '!#$%&*+^`|~'),
            {'a,2': 'letters', 'a)': 'letters', 'a b': 'letters',
             "a'b": 'letters', 'a"b': 'letters', 'a\\b': 'letters',
             'é': 'letters', '': 'letters', 'x' * 256: 'letters'})

    def test_fields_of_subjects(self):
        self.assert_values(
            l7.subject_field_problem, ('CN', 'emailAddress', 'X-1'),
            {'C,2': 'field', '1': 'field', 'CN)': 'field', '': 'field'})

    def test_ciphers(self):
        self.assert_values(
            l7.ciphers_problem,
            ('ECDHE-RSA-AES128-GCM-SHA256:!aNULL', 'DEFAULT@SECLEVEL=1',
             'TLS_AES_256_GCM_SHA384', 'NO-SUCH-CIPHER:AES128-SHA'),
            {'a b': 'characters', "a'b": 'characters', '': 'empty',
             'NO-SUCH-CIPHER': 'OpenSSL', 'TLS_NO_SUCH': 'OpenSSL'})

    def test_versions_of_tls(self):
        self.assert_values(
            l7.versions_problem,
            (['TLSv1.3', 'TLSv1.2'], ['TLSv1.2', 'TLSv1.2'], ['TLSv1']), {})
        for versions, words in (([], 'empty'), (['SSLv3'], 'SSLv3'),
                                (['TLSv1.1', 'TLSv1.3'], 'left out')):
            self.assertIn(words, l7.versions_problem(versions)[0])

    def test_ciphers_are_split_by_version(self):
        self.assertEqual(
            ('A:B', 'TLS_AES_256_GCM_SHA384'),
            l7.split_ciphers('A:TLS_AES_256_GCM_SHA384:B'))


class TestRules(base.TestCase):

    def test_served_rules(self):
        for rule in (
                proxied.rule('HOST_NAME', '.example.com', 'ENDS_WITH'),
                proxied.rule('FILE_TYPE', 'jpg', 'EQUAL_TO'),
                proxied.rule('FILE_TYPE', 'jpg|png', 'REGEX'),
                proxied.rule('HEADER', '-f', 'EQUAL_TO', key='X-A'),
                proxied.rule('COOKIE', 'a b', 'CONTAINS', key='c'),
                proxied.rule('SSL_CONN_HAS_CERT', 'True', 'EQUAL_TO'),
                proxied.rule('SSL_VERIFY_RESULT', '0', 'EQUAL_TO'),
                proxied.rule('SSL_DN_FIELD', 'x', 'STARTS_WITH', key='CN')):
            self.assertIsNone(l7.rule_problem(rule), rule)

    def test_refused_rules(self):
        for field, rule in (
                ('value', proxied.rule('PATH', '')),
                ('value', proxied.rule('PATH', '(?u)x', 'REGEX')),
                ('key', proxied.rule('PATH', key='x')),
                ('key', proxied.rule('HEADER')),
                ('key', proxied.rule('HEADER', key='a,2')),
                ('key', proxied.rule('COOKIE', key='a)')),
                ('key', proxied.rule('SSL_DN_FIELD', key='C N')),
                ('compare_type', proxied.rule('FILE_TYPE', 'jpg')),
                ('compare_type', proxied.rule('SSL_CONN_HAS_CERT', 'True')),
                ('value', proxied.rule('SSL_CONN_HAS_CERT', 'False',
                                       'EQUAL_TO')),
                ('value', proxied.rule('SSL_VERIFY_RESULT', '²', 'EQUAL_TO')),
                ('key', proxied.rule('SSL_VERIFY_RESULT', '1', 'EQUAL_TO',
                                     key='a'))):
            self.assertEqual(field, l7.rule_problem(rule)[0], rule)


class TestPolicies(base.TestCase):

    def test_policies_need_the_target_of_their_action_and_no_other(self):
        url, pool = 'https://example.com/', proxied.uuid_of('pool')
        for refused, policy in (
                (None, proxied.policy()),
                (None, proxied.policy('REDIRECT_TO_URL', redirect_url=url)),
                (None, proxied.policy('REDIRECT_PREFIX', redirect_prefix=url)),
                (None, proxied.policy('REDIRECT_TO_POOL',
                                      redirect_pool_id=pool)),
                ('redirect_url', proxied.policy('REDIRECT_TO_URL')),
                ('redirect_prefix', proxied.policy('REDIRECT_PREFIX')),
                ('redirect_pool_id', proxied.policy('REDIRECT_TO_POOL')),
                ('redirect_url', proxied.policy(redirect_url=url)),
                ('redirect_url', proxied.policy(
                    'REDIRECT_TO_URL', redirect_url='/here')),
                ('redirect_prefix', proxied.policy(
                    'REDIRECT_PREFIX', redirect_prefix='https://a b/'))):
            problem = l7.policy_problem(policy)
            self.assertEqual(refused, problem and problem[0], policy)

    def test_rules_of_a_policy_are_limited(self):
        rules = {str(number): proxied.rule() for number in range(51)}
        self.assertEqual('rules', l7.policy_problem(
            proxied.policy(rules=rules))[0])
        del rules['0']
        self.assertIsNone(l7.policy_problem(proxied.policy(rules=rules)))
