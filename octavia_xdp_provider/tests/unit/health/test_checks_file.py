# SPDX-License-Identifier: Apache-2.0

import dataclasses
from importlib import resources
import json
from unittest import mock

import jsonschema
from oslotest import base

from octavia_xdp_provider.health import checks_file

VECTORS = json.loads(
    resources.files('octavia_xdp_provider.contracts')
    .joinpath('checks-vectors.json')
    .read_text(encoding='utf-8')
)

TCP = checks_file.Check(
    type='tcp',
    address='198.18.10.10',
    port=80,
    delay=5,
    timeout=3,
)
HTTP = dataclasses.replace(TCP, type='http', http=checks_file.HttpOptions())
PING = dataclasses.replace(TCP, type='ping')
HTTPS = dataclasses.replace(HTTP, type='https', tls=checks_file.TlsOptions())


CONDITION = checks_file.Condition(frozenset([TCP.key]))
GROUP = checks_file.Group('pool', frozenset([TCP.key]), 50)


def names_in(definition):
    """The fields of an object as the schema has it."""
    return set(definition['properties'])


def fields_of(documents, *path):
    """The fields of all objects at a place of documents, lists entered."""
    objects = list(documents)
    for name in path:
        objects = [item[name] for item in objects if name in item]
        objects = [part for item in objects
                   for part in (item if isinstance(item, list) else [item])]
    return set().union(*objects)


class TestSchema(base.BaseTestCase):
    """A field that only the schema has is in no file."""

    def assert_fields_of_the_schema(self, documents):
        defined = checks_file.SCHEMA['$defs']
        places = {
            'check': ('checks',), 'http': ('checks', 'http'),
            'tls': ('checks', 'tls'), 'condition': ('conditions',),
            'group': ('groups',), 'patience': ('patience',)}
        # The definition of a key has no fields.
        self.assertEqual(defined.keys() - {'key'}, places.keys())
        self.assertEqual(names_in(checks_file.SCHEMA), fields_of(documents))
        for name, place in places.items():
            self.assertEqual(names_in(defined[name]),
                             fields_of(documents, *place), name)

    def test_each_field_of_the_schema_is_written(self):
        marked = dataclasses.replace(HTTPS, mark=1, proxy_protocol=1)
        self.assert_fields_of_the_schema([checks_file.build_document(
            [TCP, marked], [CONDITION], [GROUP],
            patience={TCP.key: 30})])

    def test_each_field_of_the_schema_is_in_a_vector(self):
        self.assert_fields_of_the_schema(
            [vector['document'] for vector in VECTORS['valid']])

    def test_each_value_of_an_enumeration_is_in_a_vector(self):
        documents = [vector['document'] for vector in VECTORS['valid']]
        checks = [check for document in documents
                  for check in document['checks']]
        requests = [check['http'] for check in checks if 'http' in check]
        for definition, name, objects in (
                ('check', 'type', checks), ('http', 'method', requests),
                ('http', 'version', requests)):
            allowed = checks_file.SCHEMA['$defs'][definition]['properties'][
                name]['enum']
            self.assertEqual(set(allowed), {item[name] for item in objects})


class TestVectors(base.BaseTestCase):
    def test_schema_is_valid(self):
        jsonschema.Draft202012Validator.check_schema(checks_file.SCHEMA)

    def test_valid_documents_of_the_vectors_pass_with_their_keys(self):
        for vector in VECTORS['valid']:
            with self.subTest(vector['name']):
                document = vector['document']
                checks_file.validate(document)
                for check in document['checks']:
                    self.assertEqual(check['key'],
                                     checks_file.compute_key(check))
                for condition in document.get('conditions', ()):
                    self.assertEqual(condition['key'], checks_file.Condition(
                        frozenset(condition['checks'])).key)

    def test_invalid_documents_are_refused(self):
        for vector in VECTORS['invalid']:
            with self.subTest(vector['name']):
                error = self.assertRaises(
                    checks_file.ChecksFileError,
                    checks_file.validate,
                    vector['document'],
                )
                for part in vector['error']:
                    self.assertIn(part, str(error))


class TestLoad(base.BaseTestCase):
    def load(self, text):
        return checks_file.load(self.create_tempfiles([('x', text)])[0])

    def test_written_document_is_read(self):
        document = checks_file.build_document([TCP, PING])
        self.assertEqual(document, self.load(json.dumps(document)))

    def test_malformed_checks_file_is_refused(self):
        for text in ('', '{', '[]', '{"version": 2, "checks": []}', '\0'):
            self.assertRaises(checks_file.ChecksFileError, self.load, text)


class TestDocument(base.BaseTestCase):
    def test_order_of_the_checks_is_nobodys_business(self):
        self.assertEqual(
            checks_file.build_document([TCP, HTTP]),
            checks_file.build_document([HTTP, TCP]),
        )

    def test_spellings_of_an_address_are_one(self):
        long = dataclasses.replace(TCP, address='2001:0db8:0::0001')
        short = dataclasses.replace(TCP, address='2001:db8::1')

        self.assertEqual(long.key, short.key)

    def test_every_field_counts_for_the_key(self):
        others = [
            HTTP,
            HTTPS,
            dataclasses.replace(
                HTTPS, tls=checks_file.TlsOptions('www.example.org')
            ),
            dataclasses.replace(TCP, address='198.18.10.11'),
            dataclasses.replace(TCP, port=81),
            dataclasses.replace(TCP, delay=6),
            dataclasses.replace(TCP, timeout=4),
            dataclasses.replace(TCP, rise=4),
            dataclasses.replace(TCP, fall=4),
        ]

        self.assertEqual(10, len({TCP.key, *(c.key for c in others)}))

    def test_keys_of_the_first_types_stay_as_they_are(self):
        self.assertEqual('e8a6d88ce1cd0096', TCP.key)
        self.assertEqual('a3b814d84d993ddd', HTTP.key)

    def test_ping_has_no_port(self):
        other = dataclasses.replace(PING, port=None)

        self.assertEqual(PING.key, other.key)
        self.assertNotIn('port', PING.as_dict())

    def test_options_of_another_type_are_refused(self):
        for check in (
            dataclasses.replace(TCP, http=checks_file.HttpOptions()),
            dataclasses.replace(TCP, tls=checks_file.TlsOptions()),
            dataclasses.replace(HTTPS, tls=None),
            dataclasses.replace(TCP, port=None),
        ):
            self.assertRaises(
                checks_file.ChecksFileError,
                checks_file.build_document,
                [check],
            )

    def test_server_name_is_a_valid_host_name(self):
        for host, name in (
            ('www.example.org', 'www.example.org'),
            (None, None),
            ('198.18.0.1', None),
            ('-a.example', None),
            ('a.example.', 'a.example'),
            ('a.example..', None),
            ('.', None),
            ('a.' * 126 + 'bc', None),
        ):
            options = checks_file.TlsOptions.for_host(host)
            self.assertEqual(name, options.server_name)

    def test_key_is_never_zero(self):
        with mock.patch('hashlib.blake2b') as blake2b:
            blake2b.return_value.hexdigest.return_value = '0' * 16
            self.assertEqual('0000000000000001', TCP.key)

    def test_two_checks_with_one_key_are_refused(self):
        keys = mock.Mock(**{'of.return_value': '1' * 16})
        self.assertRaises(
            checks_file.ChecksFileError,
            checks_file.build_document,
            [TCP, HTTP],
            keys=keys,
        )

    def test_keys_follow_from_the_nodes_secret(self):
        keys, same, other = (
            checks_file.Keys(secret) for secret in (b'a', b'a', b'b'))
        self.assertEqual(keys.of(TCP), same.of(TCP))
        self.assertEqual(4, len({
            keys.of(TCP), other.of(TCP), keys.of(HTTP), TCP.key}))
        document = checks_file.build_document([TCP], keys=keys)
        self.assertEqual(keys.of(TCP), document['checks'][0]['key'])

    def test_wrong_value_of_any_field_is_refused_by_name(self):
        wrong = {
            'type': 'gopher', 'address': '198.18.0.1%eth0', 'port': 0,
            'delay': 0, 'timeout': 0, 'rise': 11, 'fall': 0,
            'http': checks_file.HttpOptions(method='get'),
            'tls': checks_file.TlsOptions('-'), 'mark': 0,
            'proxy_protocol': 3}
        self.assertEqual(
            {field.name for field in dataclasses.fields(checks_file.Check)},
            wrong.keys())
        for name, value in wrong.items():
            bad = dataclasses.replace(HTTPS, **{name: value})
            error = self.assertRaises(
                ValueError, checks_file.build_document, [bad])
            self.assertIn(name, str(error))


class TestTogether(base.BaseTestCase):
    OTHER = dataclasses.replace(TCP, port=81)

    def test_equal_conditions_become_one(self):
        keys = frozenset([TCP.key, self.OTHER.key])
        condition = checks_file.Condition(keys)
        document = checks_file.build_document(
            [TCP, self.OTHER],
            [condition, checks_file.Condition(frozenset(sorted(keys)))],
            [checks_file.Group('pool', frozenset([condition.key]), 50)],
        )

        self.assertEqual(
            [{'key': condition.key, 'checks': sorted(keys)}],
            document['conditions']
        )
        self.assertEqual(
            [{'name': 'pool', 'checks': [condition.key], 'panic_percent': 50}],
            document['groups'],
        )

    def test_conditions_and_groups_name_existing_checks(self):
        missing = frozenset([self.OTHER.key])
        self.assertRaises(
            checks_file.ChecksFileError,
            checks_file.build_document,
            [TCP],
            [checks_file.Condition(missing)],
        )
        self.assertRaises(
            checks_file.ChecksFileError,
            checks_file.build_document,
            [TCP],
            groups=[checks_file.Group('pool', missing, 50)],
        )


class TestSelect(base.BaseTestCase):
    OTHER = dataclasses.replace(TCP, port=81)

    def setUp(self):
        super().setUp()
        self.both = checks_file.Condition(
            frozenset([TCP.key, self.OTHER.key])
        )
        self.document = checks_file.build_document(
            [TCP, self.OTHER, PING],
            [self.both],
            [
                checks_file.Group('both', frozenset([self.both.key]), 40),
                checks_file.Group(
                    'some', frozenset([self.both.key, PING.key]), 50
                ),
            ],
        )

    def test_condition_comes_with_its_checks_and_whole_groups(self):
        selected = checks_file.select(
            self.document, frozenset([self.both.key])
        )

        rest = checks_file.build_document([HTTP], kept=selected)
        self.assertEqual(
            {HTTP.key, TCP.key, self.OTHER.key},
            {check['key'] for check in rest['checks']},
        )
        self.assertEqual(self.document['conditions'], rest['conditions'])
        self.assertEqual(
            ['both'], [group['name'] for group in rest['groups']]
        )

    def test_patience_is_kept_with_its_checks(self):
        document = checks_file.build_document(
            [TCP, HTTP, PING],
            patience={TCP.key: 30, HTTP.key: 30, PING.key: 60})
        self.assertEqual([
            {'seconds': 30, 'checks': sorted([TCP.key, HTTP.key])},
            {'seconds': 60, 'checks': [PING.key]}], document['patience'])
        kept = checks_file.select(document, frozenset([TCP.key]))
        self.assertEqual([{'seconds': 30, 'checks': [TCP.key]}],
                         kept['patience'])
        rest = checks_file.build_document([HTTP], kept=kept)
        self.assertEqual(kept['patience'], rest['patience'])
        # The agent knows whether a wanted member moves: no kept value is used.
        rest = checks_file.build_document([TCP], kept=kept)
        self.assertNotIn('patience', rest)

    def test_invalid_patience_is_refused(self):
        for seconds, key, words in (
                (0, TCP.key, ('patience[0].seconds', '0 is less')),
                (3601, TCP.key, ('patience[0].seconds', '3601')),
                (30, '0' * 15 + '1', ('patience[0].checks[0]', 'not the key'))
        ):
            error = self.assertRaises(
                checks_file.ChecksFileError, checks_file.build_document,
                [TCP], patience={key: seconds})
            for word in words:
                self.assertIn(word, str(error))

    def test_unknown_keys_are_not_selected(self):
        selected = checks_file.select(self.document, frozenset(['0' * 16]))

        self.assertEqual([], checks_file.build_document(
            [], kept=selected)['checks'])

    def test_wanted_groups_replace_kept_ones(self):
        selected = checks_file.select(
            self.document, frozenset([self.both.key, PING.key])
        )

        document = checks_file.build_document(
            [TCP, PING],
            groups=[checks_file.Group('some', frozenset([PING.key]), 60)],
            kept=selected,
        )

        self.assertEqual(self.document['checks'], document['checks'])
        self.assertEqual(
            [('both', 40), ('some', 60)],
            [
                (group['name'], group['panic_percent'])
                for group in document['groups']
            ],
        )
