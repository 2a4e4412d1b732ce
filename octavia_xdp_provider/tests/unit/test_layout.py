# SPDX-License-Identifier: Apache-2.0
"""Imports run one way, and nothing but octavia-lib comes from Octavia."""

import ast
import pathlib

import octavia_xdp_provider
from octavia_xdp_provider.tests.unit import base

PACKAGE = pathlib.Path(octavia_xdp_provider.__file__).parent
NAME = PACKAGE.name

# room → rooms that it may import
ROOMS = {
    'common': {'common'},
    'driver': {'common', 'driver'},
    'controller': {'common', 'controller'},
    'node': {'common', 'node'},
    'agent': {'common', 'node', 'agent'},
    'result_handler': {'common', 'node', 'result_handler'},
    'packet_model': {'packet_model'},
    'ctl': {'common', 'node', 'packet_model', 'ctl'},
    'drops': {'drops'},
}


def imports(path):
    """Full names of everything that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield f'{node.module}.{alias.name}'


class TestLayout(base.TestCase):

    def test_rooms(self):
        for room, allowed in ROOMS.items():
            files = list((PACKAGE / room).rglob('*.py'))
            self.assertTrue(files, room)
            for path in files:
                for name in imports(path):
                    parts = name.split('.')
                    if parts[0] == NAME:
                        self.assertIn(parts[1], allowed, f'{path}: {name}')

    def test_octavia(self):
        for path in PACKAGE.rglob('*.py'):
            if 'tests' in path.parts:
                continue
            for name in imports(path):
                self.assertNotEqual('octavia', name.split('.')[0],
                                    f'{path}: {name}')
