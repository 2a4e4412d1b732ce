# SPDX-License-Identifier: Apache-2.0
"""The commands that the Makefile's heading and documents name are there."""

import pathlib
import re

from lab import demos
import octavia_xdp_provider
from octavia_xdp_provider.tests.unit import base

ROOT = pathlib.Path(octavia_xdp_provider.__file__).parent.parent
MAKEFILES = (ROOT / 'Makefile', ROOT / 'bench' / 'bench.mk')
# A command in a shell or a literal, unlike "make it so" in a sentence.
COMMAND = re.compile(r'(?:``|^\s+|\$ |\bsudo |&& )make ((?:[\w-]+[ =]?)+)')
# A command for another Makefile, or of another program.
ELSEWHERE = re.compile(r'make (--\S+ \S+ )*-C')


def targets():
    """Those that the Makefile calls commands (.PHONY), but for what they
    look at first, which begins with a dot."""
    targets = set()
    for path in MAKEFILES:
        text = path.read_text().replace('\\\n', ' ')
        for line in re.findall(r'^\.PHONY:(.*)', text, re.MULTILINE):
            targets.update(word for word in line.split()
                           if not word.startswith('.'))
    return targets


def headed():
    """Those that the heading explains."""
    heading = MAKEFILES[0].read_text().partition('\n\n')[0]
    listed = set()
    for words in re.findall(r'^#   make ([\w| -]+)', heading, re.MULTILINE):
        # Two spaces are before what it does.
        listed.update(re.split(r' \| ', words.split('  ')[0].strip()))
    return {word.split()[0] for word in listed}


def documented():
    """(page, target) of each that a document names."""
    pages = [ROOT / 'README.rst', ROOT / 'CONTRIBUTING.rst',
             *(ROOT / 'doc' / 'source').rglob('*.rst'),
             *(ROOT / 'bench').rglob('*.rst')]
    for page in pages:
        # A literal may go on in the next line.
        text = re.sub(r'``make\n\s*', '``make ', page.read_text())
        for line in text.splitlines():
            for command in COMMAND.findall(ELSEWHERE.sub('', line)):
                yield str(page.relative_to(ROOT)), command.split()[0]


class TestMakefile(base.TestCase):

    def test_heading_explains_each_command(self):
        self.assertEqual(targets(), headed())

    def test_each_command_has_a_rule(self):
        text = '\n'.join(path.read_text() for path in MAKEFILES)
        ruled = {word for line in re.findall(
            r'^([\w -]+):(?!=)', text, re.MULTILINE) for word in line.split()}
        self.assertEqual(set(), targets() - ruled)

    def test_documents_name_commands_that_are_there(self):
        commands = list(documented())
        for command in (('README.rst', 'demo-down'), ('README.rst', 'docs'),
                        ('doc/source/contributor/testing.rst', 'fault-matrix'),
                        ('bench/README.rst', 'bench-control')):
            self.assertIn(command, commands)
        self.assertEqual([], [
            (page, target) for page, target in commands
            if target not in targets()])

    def test_demonstrations_match_the_readme(self):
        readme = ' '.join((ROOT / 'README.rst').read_text().split())
        named = set(re.findall(
            r'make demo(?:-down|(?: [A-Z0-9]+=\w+)*)', readme))
        self.assertEqual(named, {
            ' '.join(argv) for commands in demos.COMMANDS.values()
            for argv in commands if argv[0] == 'make'})
