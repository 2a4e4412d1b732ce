# SPDX-License-Identifier: Apache-2.0
"""Files of the tree that comments and documents name are there.

What each kind of file has is told by its name, or by a first line that is a
comment: so begin scripts, Makefiles, units, and files with settings.
"""

import fnmatch
import functools
import os
import pathlib
import re

from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit import documents

ROOT = documents.ROOT

_PYTHON = re.compile(
    r'''(?P<prefix>^[ \t]*)?[rRbBuUfF]{0,2}
    (?:(?P<quotes>"""|\'\'\')(?P<text>(?:\\.|[^\\])*?)(?P=quotes)
       |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<comment>\#[^\n]*)''', re.DOTALL | re.MULTILINE | re.VERBOSE)
# Strings are matched to be passed over: in Rust they may be of several lines.
_C = re.compile(
    r'''r(?P<hashes>\#*)".*?"(?P=hashes)
    |"(?:\\.|[^"\\])*"|'(?:\\[^'\n]+|[^'\\\n])'
    |(?P<comment>//[^\n]*|/\*.*?\*/)''', re.DOTALL | re.VERBOSE)
_HASH = re.compile(r'(?:^|(?<=\s))(?P<comment>#[^\n]*)', re.MULTILINE)
# A literal of a document that may be a path.
_LITERAL = re.compile(r'[\w*…][\w.*…-]*(?:/[\w.*…-]+)*/?')
# Start of a further line of a comment.
_MARGIN = re.compile(r'\n[ \t]*(?:\*(?!/)|//[/!]?|#)?')


def _python(text):
    for match in _PYTHON.finditer(text):
        if match['comment']:
            yield match['comment']
        elif match['text'] and match['prefix'] is not None:
            yield match['text']


def _marked(pattern, text):
    return (match['comment'] for match in pattern.finditer(text)
            if match['comment'])


def _literals(text):
    return (literal for literal in re.findall(r'``([^`]+)``', text)
            if _LITERAL.fullmatch(literal))


_c = functools.partial(_marked, _C)
_hash = functools.partial(_marked, _HASH)
_KINDS = {'.py': _python, '.c': _c, '.h': _c, '.rs': _c, '.S': _c, '.go': _c,
          '.dot': _c, '.rst': _literals}
# Without comments.
_OTHERS = ('.json', '.png', '.svg', '.html', '.js', '.css')


def all_paths():
    """All files, relative to the root: none that a build or Git has made."""
    files = []
    for directory, directories, names in os.walk(ROOT):
        directories[:] = [
            name for name in directories
            if name not in ('build', 'target', '__pycache__', '.git')
            and not name.endswith(('_cache', '.egg-info'))]
        files += [str(pathlib.Path(directory, name).relative_to(ROOT))
                  for name in names]
    return sorted(files)


def comments(name, text):
    """The comments and docstrings of a file, each with its lines joined."""
    suffix = pathlib.PurePath(name).suffix
    if suffix in _OTHERS:
        return
    kind = _KINDS.get(suffix)
    if not kind and text.startswith('#'):
        first = text[:text.index('\n')]
        kind = _python if re.match('#!.*python', first) else _hash
    for comment in kind(text) if kind else ():
        yield _MARGIN.sub('\n', comment)


# How source, and what is read with it, ends.
SUFFIXES = ('.c', '.h', '.py', '.rs', '.rst', '.toml', '.json', '.yaml',
            '.sh', '.go', '.lua', '.j2', '.txt')
# A word with slashes, or none: not the end of an absolute path, a URL, an
# option or a value.
PATH = re.compile(
    r'(?<![\w/.<$~@:*…=%&{}\\^+-])[\w*…][\w.*…-]*(?:/[\w.*…-]+)*')
# Made by a build, or by a run of tests or the lab.
MADE = ('build/', 'datapath/build/', 'hc-agent/target/', 'target/',
        'doc/build/')
# Headers of the kernel, as C includes them, and its documents.
KERNEL = ('linux/', 'asm/', 'asm-generic/', 'Documentation/')
# Files that comments name and the tree does not have, and where they are.
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
    'address-sets.json': 'written by an agent',
    'common.json': 'written by an agent',
    'uplinks.json': 'written by an agent',
    'launch.json': 'written by an agent', 'record.json': 'by the launcher',
    'inventory.yaml': "an operator's", 'rack.yaml': "an operator's",
    'suite.json': 'written by a benchmark',
    'reported.json': 'written by a test', 'wanted.json': 'written by a test',
}


def parts(paths):
    """Each path as comments may have it: without some of its first folders.

    So ``contracts/spec.py``, or ``spec.py`` where the text says where.
    """
    paths_below = set()
    for path in paths:
        words = path.split('/')
        for end in range(1, len(words) + 1):
            paths_below.update(
                '/'.join(words[begin:end]) for begin in range(end))
    return paths_below


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
        return {word for comment in comments(name, text)
                for word in self.names(comment) if not self.has(word)}


class TestTree(base.TestCase):

    def test_files_that_comments_and_documents_name_are_in_the_tree(self):
        paths = all_paths()
        tree = Tree(paths)
        wrong, excused = {}, set()
        for path in paths:
            try:
                text = (ROOT / path).read_text()
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
                ('a.rst', 'See ``gone/file.py``.\n'),
                ('a.yaml', '# A file.\na: 1  # gone/file.py\n')):
            self.assertEqual({'gone/file.py'}, self.tree.missing(name, text),
                             text)

    def test_text_outside_comments_is_ignored(self):
        for name, text in (
                ('a.py', 'x = "gone/file.py"\n'),
                ('a.py', 'x = """\n# gone/file.py\n"""\n'),
                ('a.c', 'char *c = "/* gone/file.py */";\n'),
                ('a.rs', 'let x = r#"// gone/file.py"#;\n'),
                ('a.rs', 'let x = "a\n// gone/file.py";\n'),
                ('a', '#!/bin/sh\necho ${a#gone/file.py}\n'),
                ('a.rst', 'See gone/file.py, or ``cat gone/file.py``.\n')):
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

    def test_other_words_are_not_taken_for_paths(self):
        self.assertEqual([], list(self.tree.names(
            '/etc/octavia.json, https://example.org/tools/x.py, tcp/udp, '
            '<linux/bpf.h>, linux/bpf.h, build/demo.json, $lab/gone.txt, '
            '--file=tools/gone, 1/2, oslo.config, datapath/build/x.h')))
