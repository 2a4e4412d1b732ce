# SPDX-License-Identifier: Apache-2.0
"""Imports run one way, and nothing but octavia-lib comes from Octavia."""

import ast
import functools
import pathlib

import fixtures

import bench
import lab
import octavia_xdp_provider
from octavia_xdp_provider.tests.unit import base
import testbed

PACKAGE = pathlib.Path(octavia_xdp_provider.__file__).parent
LAB = pathlib.Path(lab.__file__).parent
BENCH = pathlib.Path(bench.__file__).parent
TESTBED = pathlib.Path(testbed.__file__).parent
NAME = PACKAGE.name

# room → rooms that it may import
BASE = {'contracts', 'api', 'config', 'process'}
ROOMS = {
    'contracts': {'contracts'},
    'api': {'contracts', 'api'},
    'config': {'contracts', 'api', 'config'},
    'process': {'contracts', 'config', 'process'},
    'bundles': BASE | {'bundles'},
    'health': BASE | {'health'},
    'driver': BASE | {'bundles', 'driver'},
    'controller': BASE | {'bundles', 'controller'},
    'manage': BASE | {'bundles', 'controller', 'manage'},
    'node': BASE | {'node'},
    'agent': BASE | {'health', 'node', 'agent'},
    'result_handler': BASE | {'health', 'node', 'result_handler'},
    'proxy': BASE | {'bundles', 'health', 'node', 'proxy'},
    'ctl': BASE | {'health', 'node', 'ctl'},
    'drops': {'drops'},
    'host': BASE | {'host'},
    'hostctl': BASE | {'host', 'hostctl'},
}


@functools.cache
def imported_names(path):
    """Return full names of everything that a file imports, wherever in it.

    Imports in functions and those for type checkers count as all others.
    """
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            # Relative imports are not the custom here; see TestLayout.
            names += ['.'.join(filter(None, (
                '.' * node.level + (node.module or ''), alias.name)))
                for alias in node.names]
    return names


def modules(packages):
    """Name of a module → its file, of all modules in some directories."""
    return {'.'.join(path.relative_to(package.parent).with_suffix('').parts)
            .removesuffix('.__init__'): path
            for package in packages for path in package.rglob('*.py')}


def graph(packages):
    """Name of a module → names of the modules there that it imports."""
    files = modules(packages)
    return {name: {_module(imported, files)
                   for imported in imported_names(path)} - {None, name}
            for name, path in files.items()}


def _module(imported, files):
    """The module of a name that may be something in a module."""
    if imported in files:
        return imported
    parent = imported.rpartition('.')[0]
    return parent if parent in files else None


def circle(edges):
    """Modules that import each other in a circle, first and last the same.

    An empty list if there is no circle.
    """
    done = set()

    def walk(name, path):
        if name in path:
            return path[path.index(name):] + [name]
        if name in done:
            return []
        for target in sorted(edges[name]):
            if result := walk(target, path + [name]):
                return result
        done.add(name)
        return []

    for name in sorted(edges):
        if result := walk(name, []):
            return result
    return []


class TestLayout(base.TestCase):

    def test_rooms_import_only_those_below_them(self):
        for room, allowed in ROOMS.items():
            files = list((PACKAGE / room).rglob('*.py'))
            self.assertTrue(files, room)
            for path in files:
                for name in imported_names(path):
                    parts = name.split('.')
                    if parts[0] == NAME:
                        self.assertIn(parts[1], allowed, f'{path}: {name}')

    def test_measuring_and_shared_machines_stay_apart(self):
        # They share nothing but the reader of declarations.
        for path in BENCH.rglob('*.py'):
            for name in imported_names(path):
                self.assertNotEqual('testbed', name.split('.')[0],
                                    f'{path}: {name}')
        for path in TESTBED.rglob('*.py'):
            for name in imported_names(path):
                if name.startswith('bench'):
                    self.assertRegex(name, r'^bench\.(errors|declarations)\b',
                                     f'{path}: {name}')

    def test_nothing_is_imported_from_octavia_itself(self):
        # Within octavia-api, certificates are read as Octavia reads them.
        allowed = {('driver/secrets.py',
                    'octavia.common.tls_utils.cert_parser')}
        for path in PACKAGE.rglob('*.py'):
            if 'tests' in path.parts:
                continue
            for name in imported_names(path):
                if (str(path.relative_to(PACKAGE)), name) not in allowed:
                    self.assertNotEqual('octavia', name.split('.')[0],
                                        f'{path}: {name}')

    def test_tests_are_imported_by_tests_alone(self):
        # Models of the datapath among them: they are oracles, no product.
        for path in PACKAGE.rglob('*.py'):
            if 'tests' in path.relative_to(PACKAGE).parts:
                continue
            for name in imported_names(path):
                self.assertFalse(name.startswith(f'{NAME}.tests'),
                                 f'{path}: {name}')

    def test_models_import_nothing_that_they_are_compared_with(self):
        # The lists of the contract are compared with the library by others.
        allowed = (f'{NAME}.tests.models.', f'{NAME}.contracts.enumerations')
        for path in (PACKAGE / 'tests/models').rglob('*.py'):
            for name in imported_names(path):
                if name.startswith(NAME):
                    self.assertTrue(name.startswith(allowed),
                                    f'{path}: {name}')

    def test_no_test_is_imported(self):
        # It would run twice; what tests share is in modules of its own.
        for path in (PACKAGE / 'tests').rglob('*.py'):
            for name in imported_names(path):
                if name.startswith(NAME):
                    last = name.rpartition('.')[2]
                    self.assertFalse(last.startswith('test_'),
                                     f'{path}: {name}')

    def test_no_import_is_relative(self):
        for path in modules((PACKAGE, LAB, BENCH, TESTBED)).values():
            for name in imported_names(path):
                self.assertFalse(name.startswith('.'), f'{path}: {name}')

    def test_modules_do_not_import_each_other_in_a_circle(self):
        edges = graph((PACKAGE, LAB, BENCH, TESTBED))
        self.assertIn(f'{NAME}.contracts.spec',
                      edges[f'{NAME}.api.validation'])
        self.assertIn('lab.paths', edges['lab.processes'])
        self.assertEqual([], circle(edges))


class TestCircles(base.TestCase):

    def circle(self, texts):
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        package = directory / 'package'
        package.mkdir()
        for name, text in {'__init__': '', **texts}.items():
            (package / f'{name}.py').write_text(text)
        return circle(graph([package]))

    def test_each_kind_of_circle_is_found(self):
        late = ('def f():\n    import package.a\n',
                'import typing\nif typing.TYPE_CHECKING:\n'
                '    from package import a\n')
        for texts, expected in (
                ({'a': 'from package import b\nimport package.c\nimport os\n',
                  'b': 'from package.c import name\n', 'c': ''}, ''),
                ({'a': 'import package.b\n',
                  'b': 'from package.c import name\n',
                  'c': 'from package import a\n'}, '.a .b .c .a'),
                ({'a': 'import package.b\n', 'b': 'import package.c\n',
                  'c': 'import package.b\n'}, '.b .c .b'),
                # By way of the package itself, or by a late import.
                ({'__init__': 'from package import a\n',
                  'a': 'from package import name\n'}, '. .a .'),
                *(({'a': 'import package.b\n', 'b': text}, '.a .b .a')
                  for text in late)):
            self.assertEqual(
                [f'package{name}'.rstrip('.') for name in expected.split()],
                self.circle(texts), texts)
