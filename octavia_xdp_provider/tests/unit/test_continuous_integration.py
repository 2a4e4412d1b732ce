# SPDX-License-Identifier: Apache-2.0
"""Jobs of Zuul and environments of tox run what the tree has."""

import configparser
import functools
import pathlib
import re

import yaml

import octavia_xdp_provider
from octavia_xdp_provider.tests.support import tools
from octavia_xdp_provider.tests.unit import base

kinds = tools.load('kinds')
reach = tools.load('reach')

ROOT = pathlib.Path(octavia_xdp_provider.__file__).parent.parent
PIPELINES = ('check', 'gate', 'periodic-weekly')


@functools.cache
def documents():
    return [document for path in sorted((ROOT / 'zuul.d').glob('*.yaml'))
            for document in yaml.safe_load(path.read_text())]


def jobs():
    return {document['job']['name']: document['job']
            for document in documents() if 'job' in document}


def kind(name):
    """The kind of tests that a job runs; None for an abstract job."""
    job = jobs().get(name, {})
    if 'test_kind' in job.get('vars', {}):
        return job['vars']['test_kind']
    return kind(job['parent']) if 'parent' in job else None


def nodeset(name):
    job = jobs()[name]
    return job.get('nodeset') or nodeset(job['parent'])


def project():
    [document] = [document for document in documents()
                  if 'project' in document]
    return document['project']


class TestZuul(base.TestCase):

    def test_each_kind_of_tests_has_one_job(self):
        tested = [kind(name) for name, job in jobs().items()
                  if not job.get('abstract')
                  and nodeset(name) == 'debian-bookworm']
        self.assertEqual(sorted(kinds.BY_NAME), sorted(tested))

    def test_unit_tests_run_with_the_python_of_each_debian(self):
        # 3.11 and 3.13 (tools/python).
        for pipeline in ('check', 'gate'):
            nodesets = {nodeset(name) for name in project()[pipeline]['jobs']
                        if kind(name) == 'unit'}
            self.assertEqual({'debian-bookworm', 'debian-trixie'}, nodesets)

    def test_jobs_run_playbooks_of_the_tree(self):
        for name, job in jobs().items():
            if job.get('abstract'):
                self.assertIn('run', job)
            else:
                self.assertIn(job['parent'], jobs(), name)
            for playbook in (job.get('run'), job.get('post-run')):
                if playbook:
                    [play] = yaml.safe_load((ROOT / playbook).read_text())
                    self.assertTrue(play['tasks'])

    def test_playbook_runs_the_jobs_kind(self):
        [play] = yaml.safe_load((ROOT / 'playbooks/tests.yaml').read_text())
        self.assertEqual('tools/test {{ test_kind }}',
                         play['tasks'][-1]['ansible.builtin.command'])
        self.assertTrue((ROOT / 'tools/test').stat().st_mode & 0o100)

    def test_pipelines_run_each_kind(self):
        for pipeline in PIPELINES:
            names = project()[pipeline]['jobs']
            self.assertLessEqual(set(names), set(jobs()))
            self.assertEqual(set(kinds.BY_NAME),
                             {kind(name) for name in names})

    def test_long_kinds_run_for_the_files_that_can_break_them(self):
        table = reach.Tree(files=[]).table['kinds']
        for name, job in jobs().items():
            if kind(name) in table:
                self.assertEqual(
                    [f'^{re.escape(pattern)}$'.replace(r'\*', '.*').replace(
                        r'\-', '-') for pattern in table[kind(name)]],
                    job['files'], name)

    def test_documents_are_relevant_to_what_reads_them(self):
        changed = 'doc/source/cli/index.rst'
        for name, job in jobs().items():
            patterns = job.get('irrelevant-files', ())
            if kind(name) in ('lint', 'unit'):
                self.assertFalse([pattern for pattern in patterns
                                  if re.match(pattern, changed)], name)


class TestTox(base.TestCase):

    def setUp(self):
        super().setUp()
        self.tox = configparser.ConfigParser(interpolation=None)
        self.tox.read(ROOT / 'tox.ini')

    def test_environments_of_openstacks_templates_are_there(self):
        names = {name.removeprefix('testenv:') for name in self.tox.sections()
                 if name.startswith('testenv:')}
        self.assertLessEqual({'pep8', 'docs', 'cover', 'releasenotes',
                              'genconfig', 'functional', 'venv'}, names)
        self.assertIn('py3', self.tox['tox']['envlist'].split(','))

    def test_environments_are_named_by_their_python(self):
        # py311 and py313 would otherwise run with basepython.
        self.assertEqual('true',
                         self.tox['tox']['ignore_basepython_conflict'])

    def test_lists_of_packages_are_in_the_tree(self):
        text = (ROOT / 'tox.ini').read_text()
        lists = re.findall(r'-[cr]\{toxinidir\}/(\S+)', text)
        self.assertLessEqual({'constraints.txt', 'doc/requirements.txt'},
                             set(lists))
        self.assertEqual([], [name for name in lists
                              if not (ROOT / name).exists()])
