# SPDX-License-Identifier: Apache-2.0
"""Imports run one way, and nothing but octavia-lib comes from Octavia."""

import pathlib

import fixtures

import bench
import lab
import octavia_xdp_provider
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit import imports
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
    'driver': BASE | {'driver'},
    'controller': BASE | {'controller'},
    'manage': BASE | {'controller', 'manage'},
    'node': BASE | {'node'},
    'agent': BASE | {'node', 'agent'},
    'result_handler': BASE | {'node', 'result_handler'},
    'packet_model': BASE | {'packet_model'},
    'ctl': BASE | {'node', 'packet_model', 'ctl'},
    'drops': {'drops'},
    'host': BASE | {'host'},
    'hostctl': BASE | {'host', 'hostctl'},
}


class TestLayout(base.TestCase):

    def test_rooms_import_only_those_below_them(self):
        for room, allowed in ROOMS.items():
            files = list((PACKAGE / room).rglob('*.py'))
            self.assertTrue(files, room)
            for path in files:
                for name in imports.names(path):
                    parts = name.split('.')
                    if parts[0] == NAME:
                        self.assertIn(parts[1], allowed, f'{path}: {name}')

    def test_measuring_and_shared_machines_stay_apart(self):
        # Of each other they share how declarations are read.
        for path in BENCH.rglob('*.py'):
            for name in imports.names(path):
                self.assertNotEqual('testbed', name.split('.')[0],
                                    f'{path}: {name}')
        for path in TESTBED.rglob('*.py'):
            for name in imports.names(path):
                if name.startswith('bench'):
                    self.assertRegex(name, r'^bench\.(errors|declarations)\b',
                                     f'{path}: {name}')

    def test_nothing_is_imported_from_octavia_itself(self):
        for path in PACKAGE.rglob('*.py'):
            if 'tests' in path.parts:
                continue
            for name in imports.names(path):
                self.assertNotEqual('octavia', name.split('.')[0],
                                    f'{path}: {name}')

    def test_tests_are_imported_by_tests_alone(self):
        # Models of the datapath among them: they are oracles, no product.
        for path in PACKAGE.rglob('*.py'):
            if 'tests' in path.relative_to(PACKAGE).parts:
                continue
            for name in imports.names(path):
                self.assertFalse(name.startswith(f'{NAME}.tests'),
                                 f'{path}: {name}')

    def test_models_import_nothing_that_they_are_compared_with(self):
        models = f'{NAME}.tests.models'
        for path in (PACKAGE / 'tests/models').rglob('*.py'):
            for name in imports.names(path):
                if name.startswith(NAME):
                    self.assertTrue(name.startswith(models),
                                    f'{path}: {name}')

    def test_no_test_is_imported(self):
        # It would run twice; what tests share is in modules of its own.
        for path in (PACKAGE / 'tests').rglob('*.py'):
            for name in imports.names(path):
                if name.startswith(NAME):
                    last = name.rpartition('.')[2]
                    self.assertFalse(last.startswith('test_'),
                                     f'{path}: {name}')

    def test_no_import_is_relative(self):
        for path in imports.modules((PACKAGE, LAB, BENCH, TESTBED)).values():
            for name in imports.names(path):
                self.assertFalse(name.startswith('.'), f'{path}: {name}')

    def test_modules_do_not_import_each_other_in_a_circle(self):
        edges = imports.graph((PACKAGE, LAB, BENCH, TESTBED))
        self.assertIn(f'{NAME}.contracts.spec',
                      edges[f'{NAME}.api.validation'])
        self.assertIn('lab.paths', edges['lab.processes'])
        self.assertEqual([], imports.circle(edges))


class TestCircles(base.TestCase):
    """The test above finds circles, of each kind."""

    def circle(self, **texts):
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        package = directory / 'package'
        package.mkdir()
        for name, text in {'__init__': '', **texts}.items():
            (package / f'{name}.py').write_text(text)
        return imports.circle(imports.graph([package]))

    def test_files_that_import_one_way(self):
        self.assertEqual([], self.circle(
            a='from package import b\nimport package.c\nimport os\n',
            b='from package.c import name\n', c=''))

    def test_circle_of_three(self):
        self.assertEqual(
            ['package.a', 'package.b', 'package.c', 'package.a'],
            self.circle(a='import package.b\n',
                        b='from package.c import name\n',
                        c='from package import a\n'))

    def test_circle_behind_what_is_in_none(self):
        self.assertEqual(['package.b', 'package.c', 'package.b'], self.circle(
            a='import package.b\n', b='import package.c\n',
            c='import package.b\n'))

    def test_circle_by_way_of_the_package_itself(self):
        self.assertEqual(['package', 'package.a', 'package'], self.circle(
            __init__='from package import a\n',
            a='from package import name\n'))

    def test_imports_in_functions_and_for_type_checkers_count(self):
        for late in ('def f():\n    import package.a\n',
                     'import typing\nif typing.TYPE_CHECKING:\n'
                     '    from package import a\n'):
            self.assertEqual(['package.a', 'package.b', 'package.a'],
                             self.circle(a='import package.b\n', b=late))
