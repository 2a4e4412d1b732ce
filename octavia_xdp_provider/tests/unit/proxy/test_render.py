# SPDX-License-Identifier: Apache-2.0
"""Cases that the comparison with Octavia (test_oracle) does not cover."""

import random

from octavia_xdp_provider.api import proxied
from octavia_xdp_provider.proxy.render import backend
from octavia_xdp_provider.proxy.render import load_balancer
from octavia_xdp_provider.proxy.render import quoting
from octavia_xdp_provider.proxy.render import settings as settings_
from octavia_xdp_provider.tests.support import haproxy_words
from octavia_xdp_provider.tests.support import proxied as documents
from octavia_xdp_provider.tests.unit import base

WEB, WEBS = documents.uuid_of('web'), documents.uuid_of('webs')
BACKEND = ('backend', f'{WEBS}:{WEB}')


def sections(document, settings=None, **more):
    proxied.check(document)
    return haproxy_words.sections(load_balancer.render(
        document, settings or documents.render_settings(), **more).text)


def shuffled(value, chance):
    """Return the same JSON with its objects' fields in another order."""
    if not isinstance(value, dict):
        return value
    items = [(key, shuffled(item, chance)) for key, item in value.items()]
    chance.shuffle(items)
    return dict(items)


class TestText(base.TestCase):

    def test_order_of_objects_does_not_change_the_text(self):
        document = documents.web(
            {f'p{number}': documents.policy(rules={
                f'r{number}{other}': documents.rule() for other in range(5)})
             for number in range(5)},
            {f'm{number}': documents.member(f'198.18.10.{number}')
             for number in range(9)})
        settings = documents.render_settings()
        expected = load_balancer.render(document, settings)
        for seed in range(9):
            self.assertEqual(expected, load_balancer.render(
                shuffled(document, random.Random(seed)), settings))

    def test_sockets_are_inherited_by_variables(self):
        document = documents.web()
        document['additional_vips'] = ['2001:db8:100::10']
        self.assertEqual(
            {settings_.socket_variable(WEB, 0): ('203.0.113.10', 80),
             settings_.socket_variable(WEB, 1): ('2001:db8:100::10', 80),
             'LISTENER_HEALTH_0': ('203.0.113.10', 65535),
             'LISTENER_HEALTH_1': ('2001:db8:100::10', 65535)},
            settings_.socket_variables(document))
        rendered = sections(document)
        self.assertEqual(
            [f'fd@${{{name}}}'
             for name in settings_.socket_variables(document)],
            [words[1] for name in (WEB, 'health')
             for words in rendered['frontend', name] if words[0] == 'bind'])

    def test_disabled_load_balancers_and_listeners_have_no_sockets(self):
        for document in (documents.web(admin_state_up=False),
                         {**documents.web(), 'admin_state_up': False}):
            self.assertEqual({}, settings_.socket_variables(document))
            self.assertEqual([('global',), ('defaults',)],
                             list(sections(document)))

    def test_certificates_are_listed_in_a_file_the_default_first(self):
        document = documents.web(
            protocol='TERMINATED_HTTPS', default_tls_bundle='f' * 64,
            sni_bundles=['a' * 64, 'f' * 64, 'b' * 64])
        configuration = load_balancer.render(document,
                                             documents.render_settings())
        self.assertEqual(
            {f'{WEB}.crt-list': ''.join(
                f'{letter * 64}.pem\n' for letter in 'fab')},
            configuration.files)

    def test_no_alpn_is_said_where_haproxy_would_offer_some(self):
        for version, expected in ((2, 6), False), ((2, 8), True):
            frontend = sections(
                documents.web(protocol='TERMINATED_HTTPS',
                              default_tls_bundle='f' * 64),
                documents.render_settings(haproxy=version))['frontend', WEB]
            bind, = (words for words in frontend if words[0] == 'bind')
            self.assertEqual(expected, 'no-alpn' in bind)


class TestPolicies(base.TestCase):

    def test_value_that_begins_with_a_hyphen_is_no_flag(self):
        kinds = {'HOST_NAME': None, 'PATH': None, 'HEADER': 'X-A',
                 'COOKIE': 'c', 'SSL_DN_FIELD': 'CN', 'FILE_TYPE': None}
        lines = sections(documents.web({'p': documents.policy(rules={
            kind: documents.rule(kind, '-f', 'EQUAL_TO', key=key)
            for kind, key in kinds.items()})}))['frontend', WEB]
        conditions = [words for words in lines if words[0] == 'acl']
        self.assertEqual(len(kinds), len(conditions))
        for words in conditions:
            self.assertEqual(['--', '-f'], words[-2:])


class TestLimits(base.TestCase):

    def limits(self, *limits, **settings):
        rendered = sections(
            documents.document({
                f'web{number}': documents.listener(connection_limit=limit)
                for number, limit in enumerate(limits)}),
            documents.render_settings(**settings))
        return {name[0]: sorted(
            int(words[1]) for key, lines in rendered.items()
            for words in lines if key[0] == name[0] and words[0] == 'maxconn'
            and key[1:] != ('health',))
            for name in rendered if name[0] != 'defaults'}

    def test_connections_are_limited_by_listener_and_in_sum(self):
        # Besides, 100 of probes.
        self.assertEqual({'global': [160], 'frontend': [20, 40]},
                         self.limits(20, 40))
        self.assertEqual({'global': [200], 'frontend': [20, 100]},
                         self.limits(20, None, connections=100))

    def test_nodes_share_a_limit(self):
        shares = [self.limits(10, nodes=3, position=position)['frontend'][0]
                  for position in range(3)]
        self.assertEqual(10, sum(shares))
        self.assertEqual([1], self.limits(
            2, nodes=3, position=2)['frontend'])


class TestServers(base.TestCase):

    def servers(self, document, **more):
        return {words[1]: words[2:] for words
                in sections(document, **more)[BACKEND] if words[0] == 'server'}

    def test_members_known_to_be_down_begin_in_maintenance(self):
        document = documents.web(members={
            'up': documents.member(),
            'down': documents.member('198.18.10.12')})
        down = documents.uuid_of('down')
        servers = self.servers(document, down={down})
        self.assertEqual({down}, {key for key, words in servers.items()
                                  if 'disabled' in words})

    def test_addresses_of_ipv6_have_brackets(self):
        document = documents.web(members={
            'm': documents.member('2001:db8::0:1', protocol_port=8080)})
        words, = self.servers(document).values()
        self.assertEqual('[2001:db8::1]:8080', words[0])

    def test_numbers_of_servers_depend_on_their_own_address_alone(self):
        members = {f'm{number}': documents.member(f'198.18.10.{number}')
                   for number in range(200)}
        ids = backend.server_ids(documents.pool(members))
        self.assertEqual(200, len(set(ids.values())))
        self.assertTrue(all(0 < number < 1 << 20 for number in ids.values()))
        # Another object with the same address, among fewer.
        again = backend.server_ids(documents.pool({
            'other': members['m7'], 'm8': members['m8']}))
        self.assertEqual(ids[documents.uuid_of('m7')],
                         again[documents.uuid_of('other')])

    def test_numbers_of_servers_are_different_in_spite_of_their_hashes(self):
        # About eight pairs among 4,096 members have the same hash.
        pool = documents.pool({
            f'm{number}': documents.member(f'198.18.{number // 256}.'
                                           f'{number % 256}')
            for number in range(4096)})
        self.assertEqual(4096, len(set(backend.server_ids(pool).values())))


class TestQuoting(base.TestCase):

    def test_words_are_read_as_they_were_written(self):
        for word in ('', 'plain', 'a b', "it's", "'", "''", '"', '\\',
                     '\\\\n', '#', 'a#b', '$HOME', '${X}', '"$X"', 'é 🙂',
                     '\\x41', '&lt;'):
            self.assertEqual(['x', word], haproxy_words.words(
                quoting.line('x', word)), word)

    def test_control_characters_never_pass(self):
        for character in ('\n', '\r', '\t', '\0', '\x7f', '\x85', '\udc80'):
            self.assertRaises(ValueError, quoting.quote, f'a{character}')
