# SPDX-License-Identifier: Apache-2.0
"""Scenarios and suites: what files may say, and the line of each mistake."""

import pathlib
import textwrap

import fixtures

from bench import errors
from bench.declarations import definitions
from bench.scenarios import load
from bench.scenarios import matrix
from bench.scenarios import model
from octavia_xdp_provider.tests.unit import base

LEAST = '''\
summary: the least that a scenario needs
measure: {kind: max_rate}
'''


class Files(base.TestCase):
    """Declarations in a folder of their own."""

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def write(self, text, name='one.yaml'):
        path = self.folder / name
        path.write_text(textwrap.dedent(text))
        return str(path)

    def scenario(self, text, **options):
        return load.scenario(self.write(text), **options)

    def suite(self, text):
        return load.suite(self.write(text, 'suite.yaml'))

    def assert_refused(self, line, words, text, read=None):
        error = self.assertRaises(errors.DeclarationError,
                                  read or self.scenario, text)
        self.assertEqual(line, error.line, str(error))
        for word in words:
            self.assertIn(word, str(error))


class TestScenario(Files):

    def test_what_is_not_said_has_a_default(self):
        variant, = self.scenario(LEAST)
        self.assertEqual('one', variant.name)
        self.assertEqual(load.DEFAULT_BED, variant.bed)
        self.assertEqual(model.Software('xdp', {}), variant.software)
        self.assertEqual(((128, 1),), variant.traffic.sizes)

    def test_sizes_are_one_a_mix_or_imix(self):
        def sizes(text):
            variant, = self.scenario(LEAST + f'traffic: {{sizes: {text}}}\n')
            return variant.traffic.sizes
        self.assertEqual(((512, 1),), sizes('512'))
        self.assertEqual(((64, 2), (1514, 1)), sizes('[[64, 2], [1514, 1]]'))
        self.assertEqual(model.IMIX, sizes('imix'))

    def test_a_bed_can_be_changed_without_a_file_of_its_own(self):
        variant, = self.scenario(LEAST + (
            'bed: {name: ecmp, set: {hosts: {lb: {count: 3, sysctl: '
            '{net.a.b: 1}}}}}\n'))
        self.assertEqual('ecmp', variant.bed)
        self.assertEqual(((('hosts', 'lb', 'count'), 3),
                          (('hosts', 'lb', 'sysctl', 'net.a.b'), 1)),
                         variant.bed_set)

    def test_the_bed_of_the_command_line_comes_first(self):
        variant, = self.scenario(LEAST + 'bed: two-nodes\n', bed='mine.yaml')
        self.assertEqual('mine.yaml', variant.bed)

    def test_mistakes_have_their_line(self):
        for line, words, more in (
                (3, ('unknown key "bede"',), 'bede: x\n'),
                (3, ('sizes',), 'traffic: {sizes: huge}\n'),
                (3, ('events', 'max_rate'),
                 'events: [{at: 1, do: node_stops}]\n'),
                (4, ('xdp', 'twice'), 'beside:\n- {name: xdp}\n'),
                (3, ('tcp', 'udp'), 'traffic: {protocol: tcp}\n'),
                (3, ('SYN',), 'traffic: {kind: syn}\n'),
                (4, ('no software "ipvz"', 'haproxy'),
                 'software:\n  name: ipvz\n'),
                (5, ('unknown key "encapsulatoin"', 'idle_timeout_s'),
                 'software:\n  configuration:\n    encapsulatoin: gue\n'),
                (5, ('routing', 'ospf', 'static, bgp'), 'software:\n'
                 '  configuration:\n    routing: ospf\n'),
                (4, ('encapsulation', 'vxlan', 'ipip, gue'), 'software:\n'
                 '  configuration: {encapsulation: vxlan}\n'),
                (7, ('haproxy', '"none"'), 'beside:\n- name: kernel\n'
                 '- name: haproxy\n  configuration:\n    none: 1\n'),
                (5, ('slots', "'many'"), 'matrix:\n'
                 '  software.configuration.slots:\n  - many\n')):
            self.assert_refused(line, words, LEAST + more)
        self.assert_refused(2, ('no client "curl"', 'h2load'), 'summary: x\n'
                            'measure: {kind: requests, client: curl}\n')

    def test_a_part_by_itself_has_settings_and_no_bed(self):
        part = 'summary: x\nmeasure: {kind: steady, settings: '
        variant, = self.scenario(part + '{delay: 7}}\n')
        self.assertTrue(variant.is_alone)
        self.assertEqual({'delay': 7}, variant.measure.settings)
        for line, words, text in (
                (2, ('no such setting', 'protocol'), '{delya: 7}}\n'),
                (2, ("'7'", '5'), '{delay: "7"}}\n'),
                (2, ('1 or more',), '{delay: 0}}\n'),
                (3, ('needs none',), '{}}\nbed: one-node\n'),
                (3, ('ipvs', 'xdp'), '{}}\nbeside: [{name: ipvs}]\n')):
            self.assert_refused(line, words, part + text)
        self.assert_refused(2, ("['all']", 'fleet'), (
            'summary: x\n'
            'measure: {kind: control_plane, settings: {cases: [all]}}\n'))

    def test_keys_of_another_kind_are_refused(self):
        for line, words, measure in (
                (2, ('needs "rate"',), '{kind: fixed_rate}'),
                (2, ('"connections"', 'max_rate'),
                 '{kind: max_rate, connections: 3}'),
                (2, ('needs "events"',), '{kind: timeline, rate: 10}')):
            self.assert_refused(
                line, words, f'summary: x\nmeasure: {measure}\n')

    def test_events_have_to_fit(self):
        text = ('summary: x\n'
                'measure: {kind: timeline, rate: 10, seconds: 2}\n'
                'services: {members: 2, vips: 3}\n'
                'events:\n'
                '- {at: 1, do: node_stops}\n')
        self.assertEqual(1, len(self.scenario(text)))
        for words, event in (
                (('nothing is sent',), '{at: 2, do: node_stops}'),
                (('member 3', 'have 2'),
                 '{at: 1, do: member_dies, member: 3}'),
                (('4 services', 'are 3'),
                 '{at: 1, do: table_update, services: 4}'),
                (('"up"', 'node_stops'),
                 '{at: 1, do: node_stops, up: true}')):
            self.assert_refused(6, words, f'{text}- {event}\n')


class TestMatrix(Files):

    def test_each_combination_is_a_case_with_a_name_and_coordinates(self):
        variants = self.scenario(LEAST + '''\
matrix:
  traffic.flows: [1, 1024]
  encapsulation:
    gue: {software.configuration.encapsulation: gue}
    gue6: {software.configuration.encapsulation: gue, services.family: 6}
''')
        self.assertEqual(['one/1/gue', 'one/1/gue6', 'one/1024/gue',
                          'one/1024/gue6'], [case.name for case in variants])
        last = variants[-1]
        self.assertEqual((1024, 6), (last.traffic.flows,
                                     last.services.family))
        self.assertEqual({'encapsulation': 'gue'},
                         last.software.configuration)
        self.assertEqual({'flows': 1024, 'encapsulation': 'gue6'},
                         last.coordinates)

    def test_a_row_can_be_of_the_bed(self):
        variants = self.scenario(LEAST + '''\
bed: {name: ecmp, set: {}}
matrix:
  bed.set.hosts.lb.count: [1, 8]
''')
        self.assertEqual([((('hosts', 'lb', 'count'), 1),),
                          ((('hosts', 'lb', 'count'), 8),)],
                         [case.bed_set for case in variants])
        self.assertEqual(['one/1', 'one/8'], [case.name for case in variants])

    def test_combinations_can_be_left_out(self):
        variants = self.scenario(LEAST + '''\
matrix: {services.family: [4, 6], traffic.flows: [1, 2]}
leave_out: ['6/*']
''')
        self.assertEqual(['one/4/1', 'one/4/2'],
                         [case.name for case in variants])
        self.assert_refused(4, ('nothing is left',), LEAST + (
            "matrix: {services.family: [4, 6]}\nleave_out: ['*']\n"))

    def test_a_wrong_value_has_the_line_of_the_matrix(self):
        for line, words, row in (
                (6, ('flows',), 'traffic.flows:\n  - 1\n  - many\n'),
                (4, ('unknown key "floes"',), 'traffic.floes: [1]\n'),
                (4, ('nothing at summary.x',), 'summary.x: [1]\n'),
                (6, ('services.family',),
                 'both:\n    four: {services.family: 4}\n'
                 '    five: {services.family: 5}\n')):
            self.assert_refused(line, words, LEAST + f'matrix:\n  {row}')

    def test_too_many_combinations_are_refused(self):
        many = list(range(101))
        self.assert_refused(3, ('10201 combinations',), LEAST + (
            f'matrix: {{traffic.flows: {many}, services.vips: {many}}}\n'))

    def test_items_of_lists_are_changed_by_their_number(self):
        data = {'events': [{'at': 1}, {'at': 2}]}
        matrix.change(data, 'events.1.at', 3)
        self.assertEqual({'events': [{'at': 1}, {'at': 3}]}, data)
        self.assertRaises(KeyError, matrix.change, data, 'events.2.at', 3)


class TestSuite(Files):

    def test_parts_choose_cases_rounds_and_values(self):
        self.write(LEAST + 'matrix: {traffic.flows: [1, 2, 3]}\n')
        suite = self.suite('''\
            summary: some
            rounds: 5
            minutes: 1
            scenarios:
            - scenario: one
              only: ['[12]']
              set: {measure.seconds: 0.5}
            ''')
        self.assertEqual(['one/1', 'one/2'],
                         [case.name for case in suite.variants])
        self.assertEqual({(5, 0.5)}, {(case.rounds, case.measure.seconds)
                                      for case in suite.variants})

    def test_mistakes_have_their_line(self):
        self.write(LEAST)
        for line, words, text in (
                (3, ('no case is called "8"', 'one'),
                 'scenarios:\n- {scenario: one, only: ["8"]}\n'),
                (2, ('one is there twice',), 'scenarios:\n- one\n- one\n'),
                (3, ('nothing at summary.x',),
                 'scenarios:\n- {scenario: one, set: {summary.x: 1}}\n'),
                (1, ('no "scenarios"',), '')):
            self.assert_refused(line, words, f'summary: x\n{text}',
                                self.suite)

    def test_an_unknown_scenario_is_named_with_those_there_are(self):
        error = self.assertRaises(
            errors.BenchError, self.suite,
            'summary: x\nscenarios: [other]\n')
        self.assertIn('no scenario "other"', str(error))


class TestDefinitions(base.TestCase):

    def test_all_of_ours_can_be_taken(self):
        for name in definitions.names(definitions.SCENARIOS):
            self.assertTrue(load.scenario(name), name)
        for name in definitions.names(definitions.SUITES):
            suite = load.suite(name)
            self.assertTrue(suite.variants, name)
