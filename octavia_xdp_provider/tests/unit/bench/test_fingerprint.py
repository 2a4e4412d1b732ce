# SPDX-License-Identifier: Apache-2.0
"""The fingerprint stored with results, and differences of two."""

import copy
import json
import pathlib
import subprocess
import sys

import fixtures

from bench import errors
from bench import facts
from bench import fingerprint
from octavia_xdp_provider.tests.unit import base

CLOCKS = {'realtime': 1e9, 'monotonic': 1000.0, 'raw': 1000.0,
          'boottime': 1000.0}
TICKS = {'user': 100, 'system': 100, 'idle': 1000, 'iowait': 0, 'steal': 5}
LOAD = {'busy': 0.02, 'steal': 0.0, 'ticks': TICKS, 'clocks': CLOCKS}
MACHINE = {'kernel': {'release': '6.12'}, 'cpu': {
    'model': 'CPU', 'governor': None, 'flags': ['a', 'b'],
    'mitigations': {'meltdown': 'Not affected'}},
    'versions': {'haproxy': '2.6', 'python': '3.11'}}
FIRST = {
    'commit': 'aaa', 'changes': None, 'library': 'x', 'configuration': {},
    'beds': {'one': {
        'provider': 'namespaces', 'declaration': {'name': 'one'},
        'interfaces': {'lb': {'front': {'driver': 'veth',
                                        'offloads': ['gro']}}},
        'machines': {'machine': MACHINE}}},
    'load': {'begin': {}, 'end': {}}, 'marks': [],
}


class TestMarks(base.TestCase):

    def marks(self, seconds=600.0, busy=0.0, ticks=None, **clocks):
        begin, end = copy.deepcopy(LOAD), copy.deepcopy(LOAD)
        end['busy'] = busy
        for name in end['clocks']:
            end['clocks'][name] += seconds + clocks.get(name, 0)
        for name, more in (ticks or {'idle': 1000}).items():
            end['ticks'][name] += more
        return fingerprint.marks(begin, end)

    def test_what_disturbs_a_run_is_marked(self):
        for said, more in (
                ('other load: 50% of the CPUs at the end', {'busy': 0.5}),
                ('10.0%', {'ticks': {'idle': 900, 'steal': 100}}),
                ('+0.500 s', {'realtime': 0.5}),
                ('-0.500 s', {'realtime': -0.5}),
                # A clock that NTP adjusts, and one that is adjusted faster.
                (None, {'realtime': 600 * 400e-6}),
                ('s', {'realtime': 600 * 600e-6}),
                ('suspended for 30.0 s', {'realtime': 30, 'boottime': 30}),
                ('booted', {'seconds': -900}),
                (None, {'ticks': {'idle': 999, 'steal': 1}}), (None, {})):
            with self.subTest(more):
                marks = self.marks(**more)
                self.assertEqual(said is not None, bool(marks), marks)
                self.assertTrue(said is None or [
                    mark for mark in marks if said in mark] == marks, marks)


class TestDifferences(base.TestCase):

    def differences(self, *changes):
        second = copy.deepcopy(FIRST)
        for keys, value in changes:
            into = second
            for key in keys[:-1]:
                into = into[key]
            into[keys[-1]] = value
        return fingerprint.differences(FIRST, second)

    def test_none(self):
        self.assertEqual([], self.differences())

    def test_by_importance(self):
        machine = ('beds', 'one', 'machines', 'machine')
        differences = self.differences(
            (('library',), 'y'),
            (('marks',), ['machine: other load']),
            ((*machine, 'versions', 'python'), '3.13'),
            ((*machine, 'cpu', 'governor'), 'performance'),
            (('beds', 'one', 'interfaces', 'lb', 'front', 'offloads'), []),
            ((*machine, 'cpu', 'model'), 'other CPU'),
            (('beds', 'one', 'interfaces', 'lb', 'front', 'driver'), 'ice'),
            ((*machine, 'versions', 'haproxy'), '3.0'),
            (('changes',), 'abc'), (('commit',), 'bbb'))
        kinds = fingerprint.Importance
        self.assertEqual([
            (kinds.UNDER_TEST, 'beds/one/machines/machine/versions/haproxy'),
            (kinds.UNDER_TEST, 'changes'),
            (kinds.UNDER_TEST, 'commit'),
            (kinds.MACHINE, 'beds/one/interfaces/lb/front/driver'),
            (kinds.MACHINE, 'beds/one/machines/machine/cpu/model'),
            (kinds.SETTINGS, 'beds/one/interfaces/lb/front/offloads'),
            (kinds.SETTINGS, 'beds/one/machines/machine/cpu/governor'),
            (kinds.LOAD, 'marks'),
            (kinds.OTHER, 'beds/one/machines/machine/versions/python'),
            (kinds.OTHER, 'library'),
        ], [(difference.importance, difference.name)
            for difference in differences])
        self.assertEqual('commit: "aaa" → "bbb"', str(differences[2]))
        self.assertEqual('changes: nothing → "abc"', str(differences[1]))

    def test_what_passes_is_no_difference(self):
        self.assertEqual([], self.differences(
            (('load', 'begin', 'one/machine'), {'busy': 0.05})))

    def test_what_only_one_has(self):
        second = copy.deepcopy(FIRST)
        second['beds']['two'] = {'provider': 'ssh'}
        difference, = fingerprint.differences(FIRST, second)
        self.assertEqual(('beds/two/provider', None, 'ssh'), (
            difference.name, difference.first, difference.second))


class TestSource(base.TestCase):

    def test_commit_and_changes(self):
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

        def git(*words):
            subprocess.run(['git', '-c', 'user.name=a', '-c', 'user.email=a',
                            '-C', folder, *words], check=True,
                           capture_output=True)
        self.assertRaises(errors.BenchError, fingerprint.source, folder)
        git('init')
        (folder / 'file').write_bytes(b'\xff1\n')
        git('add', 'file')
        git('commit', '-m', 'first')
        clean = fingerprint.source(folder)
        self.assertEqual(40, len(clean['commit']))
        self.assertIsNone(clean['changes'])
        seen = {None}
        for content in b'\xff2\n', b'\xff3\n':
            (folder / 'file').write_bytes(content)
            changed = fingerprint.source(folder)
            self.assertEqual(clean['commit'], changed['commit'])
            seen.add(changed['changes'])
        self.assertEqual(3, len(seen))


class TestWatch(base.TestCase):

    def test_without_a_bed_it_is_this_machine(self):
        fingerprinted = json.loads(json.dumps(fingerprint.Watch([]).end()))
        self.assertEqual(facts.facts(), fingerprinted['machines']['machine'])
        self.assertEqual({'machine'}, set(fingerprinted['load']['end']))
        self.assertEqual(fingerprint.Importance.MACHINE,
                         fingerprint.importance('machines/machine/cpu/model'))


class TestFacts(base.TestCase):
    """The fingerprint of this machine, read as that of any other."""

    def ask(self, what):
        done = subprocess.run(
            [sys.executable, '-', what], text=True, check=True,
            input=pathlib.Path(facts.__file__).read_text(),
            capture_output=True)
        return json.loads(done.stdout)

    def test_facts(self):
        answer = self.ask('facts')
        release = pathlib.Path('/proc/sys/kernel/osrelease').read_text()
        self.assertEqual(release.strip(), answer['kernel']['release'])
        self.assertGreaterEqual(answer['cpu']['count'], 1)
        self.assertTrue(answer['cpu']['flags'])
        self.assertGreater(answer['memory']['total_kib'], 0)
        self.assertEqual(answer, self.ask('facts'))

    def test_load_has_no_marks_for_being_looked_at(self):
        begin, end = self.ask('load'), self.ask('load')
        self.assertEqual([], [mark for mark in fingerprint.marks(begin, end)
                              if 'clock' in mark or 'machine' in mark])
        self.assertGreater(end['clocks']['monotonic'],
                           begin['clocks']['monotonic'])
