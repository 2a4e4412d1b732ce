# SPDX-License-Identifier: Apache-2.0
"""Files of the tree that comments name are there."""

import fnmatch
import re

from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit import comments

# How source, and what is read with it, ends.
SUFFIXES = ('.c', '.h', '.py', '.rs', '.rst', '.toml', '.json', '.yaml',
            '.sh', '.go', '.lua', '.j2', '.txt')
# A word with slashes, or none: not the end of an absolute path, a URL, an
# option or a value.
PATH = re.compile(
    r'(?<![\w/.<$~@:*…=%&{}\\^+-])[\w*…][\w.*…-]*(?:/[\w.*…-]+)*')
# Made by a build, or by a run of tests or the lab.
MADE = ('build/', 'datapath/build/', 'hc-agent/target/')
# Of the kernel: its headers, as C includes them, and its documents.
KERNEL = ('linux/', 'asm/', 'asm-generic/', 'Documentation/')
# Where else it is, of what comments have in the same form.
OTHERS = {
    'bpf.h': 'libbpf', 'btf.h': 'libbpf',
    'stdint.h': 'the compiler',
    'time.h': 'the C library', 'sysexits.h': 'the C library',
    'ip_vs_mh.c': 'the kernel',
    'stack.sh': 'DevStack', 'unstack.sh': 'DevStack', 'clean.sh': 'DevStack',
    'playbooks/bench/run.yaml': "an operator's repository",
    'octavia-xdp/controllers.yaml': "an operator's Prometheus",
    'octavia-xdp/hypervisors.yaml': "an operator's Prometheus",
    'octavia-xdp/nodes.yaml': "an operator's Prometheus",
    'suite.json': 'written by a benchmark',
    'reported.json': 'written by a test', 'wanted.json': 'written by a test',
}


def parts(paths):
    """Each path as comments may have it: without some of its first folders.

    So ``contracts/spec.py``, or ``spec.py`` where the text says where.
    """
    found = set()
    for path in paths:
        words = path.split('/')
        for end in range(1, len(words) + 1):
            found.update('/'.join(words[begin:end]) for begin in range(end))
    return found


class Tree:

    def __init__(self, paths):
        self.parts = parts(paths)
        # A word without a suffix is a path if it begins like one.
        self.folders = {path.split('/')[0] for path in paths if '/' in path}
        self.folders |= {
            path.split('/')[1] for path in paths if path.startswith(
                ('octavia_xdp_provider/', 'datapath/', 'hc-agent/'))}

    def names(self, comment):
        """The words of a comment that look like paths of the tree."""
        for word in PATH.findall(comment):
            word = word.rstrip('./')
            if f'{word}/'.startswith(MADE) or word.startswith(KERNEL):
                continue
            first, slash, _ = word.partition('/')
            if word.endswith(SUFFIXES) or (slash and first in self.folders):
                yield word

    def has(self, word):
        """Whether it is there; * and … stand for anything, NAME for a name."""
        pattern = re.sub(r'\b[A-Z]+\b(?=/)', '*', word).replace('…', '*')
        if '*' in pattern:
            return bool(fnmatch.filter(self.parts, pattern))
        return pattern in self.parts

    def missing(self, name, text):
        return {word for comment in comments.comments(name, text)
                for word in self.names(comment) if not self.has(word)}


class TestTree(base.TestCase):

    def test_files_that_comments_name_are_in_the_tree(self):
        paths = comments.paths()
        tree = Tree(paths)
        wrong, excused = {}, set()
        for path in paths:
            try:
                text = (comments.ROOT / path).read_text()
            except UnicodeDecodeError:
                continue
            missing = tree.missing(path, text)
            excused |= missing & set(OTHERS)
            if missing - set(OTHERS):
                wrong[path] = sorted(missing - set(OTHERS))

        self.assertEqual({}, wrong)
        self.assertEqual(set(OTHERS), excused)


class TestRule(base.TestCase):

    def setUp(self):
        super().setUp()
        self.tree = Tree([
            'datapath/bpf/forward/mss.h', 'hc-agent/src/queue/mod.rs',
            'lab/packages/requirements.txt', 'tools/lint',
            'octavia_xdp_provider/contracts/spec.py'])

    def test_wrong_path_is_found_in_each_kind_of_comment(self):
        for name, text in (
                ('a.py', '"""See gone/file.py."""\n'),
                ('a.py', 'def f():\n    """As\n\n    gone/file.py.\n    """'),
                ('a.py', "x = 'a # b'  # gone/file.py: why\n"),
                ('a.c', '/* See gone/file.py. */\n'),
                ('a.h', "char c = '\"'; // gone/file.py\n"),
                ('a.c', '/*\n * (gone/file.py)\n */\n'),
                ('a.rs', 'let x = \'"\'; /// `gone/file.py`\n'),
                ('a.rs', 'let x = "a\n b"; //! gone/file.py\n'),
                ('a.rs', 'let x = r#"a" b"#; // gone/file.py\n'),
                ('a', '#!/usr/bin/env python3\n"""Of gone/file.py."""\n'),
                ('a', '#!/bin/sh\necho ${#a} # gone/file.py\n'),
                ('Makefile', '# A file.\nall: # gone/file.py\n'),
                ('a.yaml', '# A file.\na: 1  # gone/file.py\n')):
            self.assertEqual({'gone/file.py'}, self.tree.missing(name, text),
                             text)

    def test_what_is_no_comment_is_left_alone(self):
        for name, text in (
                ('a.py', 'x = "gone/file.py"\n'),
                ('a.py', 'x = """\n# gone/file.py\n"""\n'),
                ('a.c', 'char *c = "/* gone/file.py */";\n'),
                ('a.rs', 'let x = r#"// gone/file.py"#;\n'),
                ('a.rs', 'let x = "a\n// gone/file.py";\n'),
                ('a', '#!/bin/sh\necho ${a#gone/file.py}\n'),
                ('a.rst', 'See gone/file.py.\n')):
            self.assertEqual(set(), self.tree.missing(name, text), text)

    def test_wrong_names_of_the_tree_are_found(self):
        for word in ('forward/gone.h', 'gone.rs', 'member/mss.h', 'tools/gone',
                     'contracts/spec', 'datapath/gone', 'lab/NAME/gone.txt',
                     'hc-agent/src/*.h', 'bpf/…/spec.py'):
            self.assertEqual({word}, self.tree.missing(
                'a.c', f'/* See {word}, which is gone. */'))

    def test_names_of_the_tree_are_found_there(self):
        for word in ('bpf/forward/mss.h', 'mss.h', 'contracts/spec.py',
                     'tools/lint', 'datapath/bpf', 'hc-agent/src/queue/',
                     'lab/NAME/requirements.txt', 'hc-agent/src/*.rs',
                     'datapath/bpf/…/mss.h'):
            self.assertEqual(
                [word.rstrip('/')],
                list(self.tree.names(f'/* See {word}, why. */')), word)
            self.assertEqual(set(), self.tree.missing(
                'a.c', f'/* See {word}. */'), word)

    def test_what_is_no_path_of_the_tree_is_left_alone(self):
        self.assertEqual([], list(self.tree.names(
            '/etc/octavia.json, https://example.org/tools/x.py, tcp/udp, '
            '<linux/bpf.h>, linux/bpf.h, build/demo.json, $lab/gone.txt, '
            '--file=tools/gone, 1/2, oslo.config, datapath/build/x.h')))
