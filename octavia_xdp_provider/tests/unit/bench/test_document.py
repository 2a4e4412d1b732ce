# SPDX-License-Identifier: Apache-2.0
"""Declarations are read with the lines on which things stand."""

import pathlib

import fixtures

from bench import errors
from bench.declarations import document
from octavia_xdp_provider.tests.unit import base

PATH = pathlib.Path('some.yaml')
SCHEMA = {
    'type': 'object',
    'additionalProperties': False,
    'required': ['name'],
    'properties': {
        'name': {'type': 'string', 'pattern': '^[a-z]+$',
                 'description': 'lower-case letters'},
        'rate': {'type': ['number', 'null'], 'minimum': 1, 'maximum': 9e9},
        'role': {'enum': ['sink', 'member']},
        'networks': {'type': 'array', 'items': {'format': 'network'},
                     'uniqueItems': True, 'minItems': 1},
        'address': {'format': 'address'},
        'via': {'anyOf': [{'type': 'string'}, {
            'type': 'object', 'properties': {'weight': {'type': 'integer'}}}]},
        'hosts': {'type': 'object',
                  'propertyNames': {'pattern': '^[a-z]+$',
                                    'description': 'lower-case letters'},
                  'additionalProperties': {'type': 'object'}},
        'any': {},
    },
}


class TestDocument(base.TestCase):

    def parse(self, text):
        return document.parse(text, PATH, SCHEMA)

    def refused(self, text, line, *parts):
        error = self.assertRaises(errors.DeclarationError, self.parse, text)
        self.assertEqual(line, error.line, str(error))
        self.assertEqual(PATH, error.path)
        for part in parts:
            self.assertIn(part, error.text)
        self.assertTrue(str(error).startswith(f'some.yaml:{line}: '))

    def test_data_and_lines(self):
        parsed = self.parse('name: some\n'
                            'networks:\n'
                            '  - 198.18.0.0/16\n'
                            '  - 2001:db8::/64\n'
                            'any: {one: [1, 2]}\n')
        self.assertEqual({
            'name': 'some', 'networks': ['198.18.0.0/16', '2001:db8::/64'],
            'any': {'one': [1, 2]}}, parsed.data)
        self.assertEqual(2, parsed.line('networks'))
        self.assertEqual(4, parsed.line('networks', 1))
        self.assertEqual(5, parsed.line('any', 'one', 0))
        # For a missing value: the line where it would be.
        self.assertEqual(5, parsed.line('any', 'two', 'three'))
        self.assertEqual('some.yaml:4: no', str(parsed.error(
            'no', 'networks', 1)))

    def test_scalars(self):
        parsed = self.parse('name: some\n'
                            'any: [1e6, 2.5e-3, .5, 7, -7, 0x10, on, off,'
                            ' null, 22:30, 2026-01-02, 1_0, 010, "on"]\n')
        self.assertEqual([1e6, 0.0025, 0.5, 7, -7, 16, True, False, None,
                          '22:30', '2026-01-02', '1_0', '010', 'on'],
                         parsed.data['any'])

    def test_aliases_and_merged_mappings(self):
        parsed = self.parse('name: some\n'
                            'any:\n'
                            '  one: &one {a: 1, b: 2}\n'
                            '  two: &two {<<: *one, b: 3}\n'
                            '  three: *two\n')
        self.assertEqual({'one': {'a': 1, 'b': 2}, 'two': {'a': 1, 'b': 3},
                          'three': {'a': 1, 'b': 3}}, parsed.data['any'])

    def test_what_is_no_yaml(self):
        self.refused('name: [\n\n', 3, 'no YAML')
        self.refused('name: "\x01"\n', 1, 'no YAML')
        self.refused('name: a\nany: !!python/object:os.system {}\n', 2,
                     'no YAML')
        self.refused('', 1, 'nothing is declared')
        self.refused('name: a\n---\nname: b\n', 2, 'no YAML')

    def test_a_key_twice(self):
        self.refused('name: a\nany:\n  b: 1\n  c: 2\n  b: 3\n', 5, '"b"',
                     'line 3')

    def test_keys_are_texts(self):
        self.refused('name: a\nany: {1: 2}\n', 2, '"1"', 'quotes')
        self.refused('name: a\nany: {on: 2}\n', 2, '"on"', 'quotes')

    def test_an_alias_within_itself(self):
        self.refused('name: a\nany: &any\n  b: *any\n', 2, 'alias')

    def test_aliases_that_grow_without_end(self):
        text = 'name: a\nany:\n  a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n'
        for number in range(9):
            names = ', '.join([f'*a{number}'] * 10)
            text += f'  a{number + 1}: &a{number + 1} [{names}]\n'
        error = self.assertRaises(errors.DeclarationError, self.parse, text)
        self.assertIn('100000 values', error.text)

    def test_unknown_keys_name_what_is_allowed(self):
        self.refused('name: a\nroel: sink\n', 2, 'unknown key "roel"',
                     'did you mean "role"?', 'address, any')

    def test_a_missing_key(self):
        self.refused('rate: 1\n', 1, 'the declaration has no "name"')

    def test_values(self):
        for text, *parts in (
                ('name: B', 'name is "B"', 'lower-case letters'),
                ('rate: fast', 'rate is "fast"', 'a number or nothing'),
                ('rate: 0', 'rate is 0', '1 or more'),
                ('rate: 1e10', 'rate is 1', 'or less'),
                ('role: lb', 'role is "lb"', 'one of: sink, member'),
                ('networks: [198.18.0.1/16]', 'networks[0]',
                 'without host bits'),
                ('networks: []', 'networks', '1 or more'),
                ('networks: [10.0.0.0/8, 10.0.0.0/8]', 'twice'),
                ('address: 198.18.0.256', 'an IPv4 or IPv6 address'),
                ('via: {weight: x}', 'via.weight is "x"', 'whole number'),
                ('hosts: {A: {}}', 'the name "A" in hosts',
                 'lower-case letters'),
                ('hosts: {a: 1}', 'hosts.a is 1', 'a mapping')):
            name = '' if text.startswith('name') else 'name: a\n'
            self.refused(f'{name}{text}\n', 2 if name else 1, *parts)

    def test_all_mistakes_at_once_by_line(self):
        error = self.assertRaises(
            errors.DeclarationError, self.parse,
            'name: a\nrole: lb\nrate: 0\nnams: 1\n')
        self.assertEqual(
            ['some.yaml:2', 'some.yaml:3', 'some.yaml:4'],
            [line.rsplit(': ', 2)[0].partition(': ')[0]
             for line in str(error).splitlines()])

    def test_files(self):
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        path = folder / 'bed.yaml'
        path.write_text('name: some\n')
        self.assertEqual({'name': 'some'},
                         document.read(path, SCHEMA).data)
        path.write_bytes(b'name: \xff\n')
        for wrong in (path, folder / 'none.yaml', folder):
            error = self.assertRaises(errors.BenchError, document.read,
                                      wrong, SCHEMA)
            self.assertIn(str(wrong), str(error))
