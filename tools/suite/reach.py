# SPDX-License-Identifier: Apache-2.0
"""Which tests a changed file reaches.

A file reaches whatever uses it, by any number of steps: Python modules by
their imports, C sources by their includes, and what neither shows by the
table ``reach.toml``. A header is used together with the source of the same
name beside it, so that who includes ``pools.h`` reaches ``pools.c``.
"""

import collections
import fnmatch
import functools
import pathlib
import re
import subprocess

import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = 'tools/suite/reach.toml'
TESTS = 'octavia_xdp_provider/tests/'
# Folders of Python tests, by the part that runs them.
FOLDERS = {
    'unit-python': TESTS + 'unit/',
    'packets': TESTS + 'packets/',
    'functional-node': TESTS + 'functional/node/',
    'functional-control': TESTS + 'functional/control/',
    'functional-bench': TESTS + 'functional/bench/',
    'functional-testbed': TESTS + 'functional/testbed/',
    'e2e-tenant': TESTS + 'e2e/tenant/',
    'e2e-faults': TESTS + 'e2e/faults/',
    'e2e-isolation': TESTS + 'e2e/isolation/',
    'e2e-isolation-vms': TESTS + 'e2e/isolation_vms/',
    'e2e-ovn': TESTS + 'e2e/ovn/',
    'e2e-bench': TESTS + 'e2e/bench/',
    'e2e-testbed': TESTS + 'e2e/testbed/',
    'release': TESTS + 'release/',
}
# One name an import, as ruff demands it; also within functions.
_FROM_IMPORT = re.compile(r'^\s*from ([\w.]+) import \(?\s*(\w+)',
                          re.MULTILINE)
_IMPORT = re.compile(r'^\s*import ([\w.]+)', re.MULTILINE)
_DOTTED_STRING = re.compile(r"""['"](\w+(?:\.\w+)+)['"]""")
_PATH_STRING = re.compile(r"""['"]([\w.-]+(?:/[\w.-]+)+)['"]""")
_INCLUDE = re.compile(r'^\s*#\s*include "([^"]+)"', re.MULTILINE)
# Where the compiler looks, in datapath/Makefile and bench/bench.mk.
_INCLUDED_FROM = ('datapath/include/', 'datapath/', 'datapath/bpf/',
                  'datapath/lib/', 'octavia_xdp_provider/contracts/')


def matching(paths, patterns):
    """Those of these paths that have a pattern; "*" stands for "/" too."""
    expression = re.compile('|'.join(map(fnmatch.translate, patterns)))
    return [path for path in paths if expression.match(path)]


def is_python_test(path):
    return path.startswith(TESTS) and (
        path.rpartition('/')[2].startswith('test_') and path.endswith('.py'))


def is_c_test(path):
    return bool(re.match(r'datapath/tests/test_\w+\.c$', path))


class Tree:
    """The files that git knows, and which of them use which.

    :param root: of the checkout.
    :param files: paths below it; those of git, and those it does not ignore.
    """

    def __init__(self, root=ROOT, files=None):
        self.root = root
        self.files = sorted(files if files is not None else tracked(root))
        self._known = set(self.files)
        self.table = tomllib.loads((root / TABLE).read_text())
        self._modules = {
            path.removesuffix('.py').removesuffix('/__init__').replace(
                '/', '.'): path
            for path in self.files if path.endswith('.py')}

    @functools.cached_property
    def users(self):
        """Path → paths of the files that use it."""
        users = collections.defaultdict(set)
        for path in self.files:
            for used in self._used_by(path):
                if used != path:
                    users[used].add(path)
        return users

    def distances(self, changed):
        """Path → steps from one of the changed files, of all these reach."""
        steps = dict.fromkeys(changed, 0)
        front = list(steps)
        while front:
            reached = {user for path in front for user in self.users[path]
                       if user not in steps}
            steps.update(dict.fromkeys(reached, steps[front[0]] + 1))
            front = sorted(reached)
        return steps

    def kinds(self, changed):
        """Names of the long kinds that a change of these files can break."""
        return [name for name, patterns in self.table['kinds'].items()
                if matching(changed, patterns)]

    def unmapped(self, paths):
        """Those of these files of which nobody knows what they reach."""
        return [path for path in paths if path not in self._mapped]

    @functools.cached_property
    def _mapped(self):
        used = collections.defaultdict(set)
        for name, users in self.users.items():
            for user in users:
                used[user].add(name)
        tested = set()
        front = {path for path in self.files
                 if is_python_test(path) or is_c_test(path)}
        while front:
            tested |= front
            front = {name for path in front for name in used[path]} - tested
        patterns = [*self.table['read_by_people']['files'], 'hc-agent/*']
        for kind in self.table['kinds'].values():
            patterns += kind
        return tested | set(matching(self.files, patterns))

    @functools.cached_property
    def _tabled(self):
        """Path → paths that it uses by the table."""
        tabled = collections.defaultdict(list)
        for pattern, patterns in self.table['uses'].items():
            used = matching(self.files, patterns)
            for path in matching(self.files, [pattern]):
                tabled[path] += used
        return tabled

    def _used_by(self, path):
        if path.endswith('.py'):
            yield from self._imports(path)
        elif path.endswith(('.c', '.h')):
            yield from self._includes(path)
        yield from self._tabled[path]

    def _imports(self, path):
        """Modules that a file imports; what a string names in full."""
        text = (self.root / path).read_text()
        names = [f'{package}.{name}' for package, name
                 in _FROM_IMPORT.findall(text)]
        names += [package for package, _name in _FROM_IMPORT.findall(text)]
        names += _IMPORT.findall(text)
        for name in _DOTTED_STRING.findall(text):
            # "python -m lab.demo", mock.patch('a.module.name')
            names += [name, f'{name}.__main__', name.rpartition('.')[0]]
        return {*(self._modules[name] for name in names
                  if name in self._modules),
                *(name for name in _PATH_STRING.findall(text)
                  if name in self._known)}

    def _includes(self, path):
        here = path.rpartition('/')[0] + '/'
        known = self._known
        for name in _INCLUDE.findall((self.root / path).read_text()):
            candidates = [folder + name for folder in (here, *_INCLUDED_FROM)
                          if folder + name in known]
            if name.endswith('.skel.h'):
                program = name.removesuffix('.skel.h') + '.bpf.c'
                candidates = [each for each in self.files
                              if each.endswith('/' + program)]
            elif not candidates:
                candidates = [each for each in self.files
                              if each.endswith('/' + name)]
            yield from candidates[:1]
        if path.endswith('.h'):
            source = path.removesuffix('.h') + '.c'
            if source in known:
                yield source


def tracked(root=ROOT):
    """Files that git knows or would add, if they are there."""
    listed = subprocess.run(
        ['git', 'ls-files', '-z', '--cached', '--others',
         '--exclude-standard'],
        cwd=root, check=True, capture_output=True, text=True).stdout
    return [path for path in dict.fromkeys(listed.split('\0'))
            if path and (root / path).is_file()]


def changed_since(base, root=ROOT):
    """(files that differ from a commit and are there, files that are gone).

    What is not committed counts as well.
    """
    listed = subprocess.run(
        ['git', 'diff', '--name-only', '--no-renames', '-z', base],
        cwd=root, check=True, capture_output=True, text=True).stdout
    new = subprocess.run(
        ['git', 'ls-files', '-z', '--others', '--exclude-standard'],
        cwd=root, check=True, capture_output=True, text=True).stdout
    paths = sorted({path for path in (listed + new).split('\0') if path})
    here = [path for path in paths if (root / path).is_file()]
    return here, [path for path in paths if path not in here]
