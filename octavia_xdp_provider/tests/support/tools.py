# SPDX-License-Identifier: Apache-2.0
"""Programs and modules of the tree that are in no package, for tests."""

import importlib
import importlib.machinery
import importlib.util
import pathlib
import sys

ROOT = pathlib.Path(__file__).parents[3]


def load(name):
    """A module of tools/suite, which is in no package of the product's."""
    folder = str(ROOT / 'tools')
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(f'suite.{name}')


def load_file(path):
    """Return a program or module of the tree as a module of its own."""
    path = ROOT / path
    loader = importlib.machinery.SourceFileLoader(path.stem, str(path))
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader(path.stem, loader))
    loader.exec_module(module)
    return module
