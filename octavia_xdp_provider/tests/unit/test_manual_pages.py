# SPDX-License-Identifier: Apache-2.0
"""Each command has a manual page, with its options, in Debian's packages."""

import configparser
import re
import runpy
import sys

from octavia_xdp_provider.manage import app
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit import documents

ROOT = documents.ROOT
CLI = documents.SOURCE / 'cli'
# Those that are not in Python.
RUST, C = 'octavia-xdp-hc', 'octavia-xdp-member'
OPTION = re.compile(r'(?<![\w-])--[a-z][\w-]*')


def commands():
    """The names of all commands in Python."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / 'setup.cfg')
    lines = parser['entry_points']['console_scripts'].split('\n')
    return {line.partition(' =')[0] for line in lines if line}


def described(lines):
    """Options that lines of RST describe."""
    heads = [line for line in lines if line.startswith('.. option:: ')]
    return {name for line in heads for name in OPTION.findall(line)}


class TestPages(base.TestCase):

    def test_each_command_has_a_manual_page(self):
        path = list(sys.path)
        pages = runpy.run_path(str(ROOT / 'doc/source/conf.py'))['man_pages']
        sys.path[:] = path
        self.assertEqual(commands() | {RUST, C}, {page[1] for page in pages})
        for source, name, description, _authors, section in pages:
            text = (ROOT / f'doc/source/{source}.rst').read_text()
            self.assertIn(f'\n{name}\n====', text)
            self.assertTrue(description)
            self.assertEqual(8 if name == C else 1, section)

    def test_pages_take_options_from_the_commands(self):
        for name in commands():
            self.assertIn(f'\n.. xdp-command:: {name}\n',
                          (CLI / f'{name}.rst').read_text())
        self.assertIn('\n.. include:: octavia-xdp-hc.inc\n',
                      (CLI / f'{RUST}.rst').read_text())
        self.assertIn('\n.. xdp-member-usage:: options\n',
                      (CLI / f'{C}.rst').read_text())

    def test_debian_packages_have_each_command(self):
        rules = (ROOT / 'deploy/debian/rules').read_text()
        rules = rules.replace('\\\n', ' ')
        packaged = [name for names in re.findall(
            r'^COMMANDS_\w+ := (.*)$', rules, re.MULTILINE)
            for name in names.split()]
        self.assertEqual(sorted(commands()), sorted(packaged))


class TestOptions(base.TestCase):
    """Manual pages describe the options that --help prints."""

    def test_options_of_argparse_and_oslo_are_described(self):
        text = documents.extension('command_text')
        self.assertEqual(commands() - {app.PROGRAM}, set(text.PARSERS))
        for name, make in text.PARSERS.items():
            printed = set()
            pending = [make()]
            while pending:
                parser = pending.pop()
                printed.update(
                    option for action in parser._actions
                    for option in action.option_strings
                    if option.startswith('--'))
                pending += text._commands(parser).values()
            self.assertEqual(printed - {'--help'},
                             described(text.lines(name)), name)

    def test_each_command_of_cliffs_is_described(self):
        lines = documents.extension('command_text').lines(app.PROGRAM)
        self.assertEqual(
            {f'{app.PROGRAM} {name}' for name in app.COMMANDS},
            {line for line in lines if line.startswith(f'{app.PROGRAM} ')})
        self.assertLessEqual(
            {'--config-file', '--apply', '--dry-run', '--sort-column',
             '--prefix'}, described(lines))

    def test_options_of_the_member_tool_are_described(self):
        text = documents.extension('member_text')
        lines = text.option_lines()
        self.assertEqual(
            set(OPTION.findall(text.text())) - {'--help', '--json'},
            described(lines))
        self.assertIn('   octavia-xdp-member remove INTERFACE',
                      text.synopsis_lines())

    def test_page_of_the_checker_names_its_commands(self):
        text = (CLI / 'octavia-xdp-hc.inc').read_text()
        for name in ('run', 'check-config', 'probe tcp', 'status', 'burst'):
            self.assertIn(f'\n{RUST} {name}\n---', text)
        self.assertIn('--fast-interval', described(text.splitlines()))
