# SPDX-License-Identifier: Apache-2.0
"""Examples for CI: YAML, and command lines that the command takes."""

import argparse
import pathlib
import re
import shlex

import yaml

import bench
from bench import commands
from octavia_xdp_provider.tests.unit import base

FOLDER = pathlib.Path(bench.__file__).parent / 'examples'
COMMAND = 'tools/octavia-xdp-bench'


def read(name):
    return yaml.safe_load((FOLDER / name).read_text())


def lines(node):
    """Command lines in a document: values of `run` and `cmd`."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ('run', 'cmd') and isinstance(value, str):
                yield value
            else:
                yield from lines(value)
    elif isinstance(node, list):
        for value in node:
            yield from lines(value)


class TestExamples(base.TestCase):

    FILES = 'github-workflow.yaml', 'zuul-run.yaml'

    def test_all_files_are_known_here(self):
        self.assertEqual({*self.FILES, 'zuul-job.yaml'},
                         {path.name for path in FOLDER.iterdir()})

    def test_nothing_but_the_set_up_and_the_command_is_called(self):
        for name in self.FILES:
            called = [shlex.split(line)[0] for line in lines(read(name))]
            self.assertEqual(['tools/setup', COMMAND, COMMAND], called)

    def test_command_takes_the_arguments(self):
        for name in self.FILES:
            for line in lines(read(name)):
                # Numbers stand for what the CI system fills in.
                words = shlex.split(re.sub(
                    r'\{\{[^}]*\}\}', '7', line.replace(
                        '"$REPOSITORY"', 'org/name').replace(
                            '"$NUMBER"', '7')))
                if words[0] != COMMAND:
                    continue
                parser = argparse.ArgumentParser(exit_on_error=False)
                commands.add_all(parser.add_subparsers())
                parsed = parser.parse_args(words[1:])
                self.assertIn(words[1], ('compare', 'post'))
                if words[1] == 'compare':
                    self.assertGreaterEqual(parsed.rounds, 12)

    def test_workflow(self):
        made = read('github-workflow.yaml')
        job, = made['jobs'].values()
        self.assertEqual({'contents': 'read', 'pull-requests': 'write'},
                         made['permissions'])
        self.assertNotIn('pull_request_target', str(made))
        for step in job['steps']:
            # Values from others are in the environment, not in a script.
            self.assertNotIn('${{', step.get('run', ''))

    def test_job_runs_the_playbook(self):
        by_kind = {kind: value for entry in read('zuul-job.yaml')
                   for kind, value in entry.items()}
        self.assertEqual('playbooks/bench/run.yaml', by_kind['job']['run'])
        self.assertEqual(by_kind['secret']['name'],
                         by_kind['job']['secrets'][0]['secret'])
        self.assertTrue(by_kind['job']['post-review'])
        post, = (task for task in read('zuul-run.yaml')[0]['tasks']
                 if task['name'] == 'Post')
        self.assertTrue(post['no_log'])
        self.assertIn('GERRIT_PASSWORD', post['environment'])
