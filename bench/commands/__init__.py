# SPDX-License-Identifier: Apache-2.0
"""The commands: each module here is one, by its name.

A command has HELP (one line), add_arguments(parser) and run(arguments), which
returns the exit status and imports what only it needs.
"""

import argparse
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
    """HELP of each command by its name."""
    return {path.stem: load(path.stem).HELP
            for path in sorted(FOLDER.glob('*.py'))
            if not path.stem.startswith('_')}


def load(name: str) -> Command:
    """The command of this name; it has to be one of summaries()."""
    return importlib.import_module(  # type: ignore[return-value]
        f'bench.commands.{name}')


def store(parser: argparse.ArgumentParser, suite: bool = True) -> None:
    """Arguments of commands that read stored runs."""
    if suite:
        parser.add_argument('--suite', metavar='NAME',
                            help='runs of this suite')
    parser.add_argument('--store', type=pathlib.Path, metavar='FILE',
                        help='of results (build/bench/results.sqlite)')
