# SPDX-License-Identifier: Apache-2.0
"""Jobs of Zuul and environments of tox run what the tree has."""

import ast
import configparser
import functools
import pathlib
import re

import yaml

import octavia_xdp_provider
from octavia_xdp_provider.tests.unit import base

ROOT = pathlib.Path(octavia_xdp_provider.__file__).parent.parent
PIPELINES = ('check', 'gate', 'periodic-weekly')


def kinds():
    """The kinds of tests that tools/test knows, and those of all runs."""
    tree = ast.parse((ROOT / 'tools/test').read_text())
    found = {target.id: ast.literal_eval(node.value)
             for node in tree.body if isinstance(node, ast.Assign)
             for target in node.targets if isinstance(target, ast.Name)
             and target.id in ('KINDS', 'LONG_KINDS')}
    return found['KINDS'] + found['LONG_KINDS'], found['KINDS']


@functools.cache
def documents():
    return [one for path in sorted((ROOT / 'zuul.d').glob('*.yaml'))
            for one in yaml.safe_load(path.read_text())]


def jobs():
    return {one['job']['name']: one['job'] for one in documents()
            if 'job' in one}


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
    [found] = [one['project'] for one in documents() if 'project' in one]
    return found


class TestZuul(base.TestCase):

    def test_each_kind_of_tests_has_one_job(self):
        found = [kind(name) for name, job in jobs().items()
                 if not job.get('abstract')
                 and nodeset(name) == 'debian-bookworm']
        self.assertEqual(sorted(kinds()[0]), sorted(found))

    def test_unit_tests_run_with_the_python_of_each_debian(self):
        # 3.11 and 3.13 (tools/python).
        for pipeline in ('check', 'gate'):
            found = {nodeset(name) for name in project()[pipeline]['jobs']
                     if kind(name) == 'unit'}
            self.assertEqual({'debian-bookworm', 'debian-trixie'}, found)

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

    def test_pipelines_run_all_that_a_change_must_pass(self):
        known = jobs()
        for pipeline in PIPELINES:
            self.assertLessEqual(set(project()[pipeline]['jobs']), set(known))
        for pipeline in ('check', 'gate'):
            run = {kind(name) for name in project()[pipeline]['jobs']}
            self.assertEqual({*kinds()[1], 'packages', 'horizon'}, run)

    def test_documents_are_relevant_to_what_reads_them(self):
        changed = 'doc/source/cli/index.rst'
        for name, job in jobs().items():
            patterns = job.get('irrelevant-files', ())
            if kind(name) in ('lint', 'unit', 'packages'):
                self.assertFalse([one for one in patterns
                                  if re.match(one, changed)], name)


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
