# SPDX-License-Identifier: Apache-2.0
"""The modules that tools/test consists of, for tests of them."""

import importlib
import pathlib
import sys

ROOT = pathlib.Path(__file__).parents[3]


def load(name):
    """A module of tools/suite, which is in no package of the product's."""
    folder = str(ROOT / 'tools')
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(f'suite.{name}')
