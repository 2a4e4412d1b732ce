# SPDX-License-Identifier: Apache-2.0
"""The documents' sources, and what renders them, for tests."""

import importlib
import pathlib
import sys

import octavia_xdp_provider

ROOT = pathlib.Path(octavia_xdp_provider.__file__).parent.parent
SOURCE = ROOT / 'doc/source'
EXTENSIONS = str(ROOT / 'doc/ext')


def pages():
    """All that readers of the documents see."""
    yield from (ROOT / 'README.rst', ROOT / 'CONTRIBUTING.rst')
    yield from sorted(SOURCE.rglob('*.rst'))


def extension(name):
    """A module of doc/ext that needs no Sphinx."""
    sys.path.insert(0, EXTENSIONS)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(EXTENSIONS)
