# SPDX-License-Identifier: Apache-2.0
"""The commands: each module here is one, by its name.

A command has HELP (a literal: one line), add_arguments(parser) and
run(arguments), which returns the exit status.
"""

import argparse
import ast
import importlib
import pathlib
from typing import Protocol

FOLDER = pathlib.Path(__file__).parent


class Command(Protocol):
    """What a module here has."""

    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


def summaries() -> dict[str, str]:
    """HELP of each command by its name, read without importing any."""
    return {path.stem: _summary(path) for path in sorted(FOLDER.glob('*.py'))
            if not path.stem.startswith('_')}


def load(name: str) -> Command:
    """The command of this name; it has to be one of summaries()."""
    return importlib.import_module(  # type: ignore[return-value]
        f'bench.commands.{name}')


def _summary(path):
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == 'HELP'
                for target in statement.targets):
            return ast.literal_eval(statement.value)
    raise TypeError(f'{path}: no HELP')
