# SPDX-License-Identifier: Apache-2.0
"""The commands, one module each, named like the command.

A command has HELP (one line), add_arguments(parser) and run(arguments), which
returns the exit status and contains imports that only the command needs.
"""

import argparse
import importlib
import pathlib
from typing import Protocol

FOLDER = pathlib.Path(__file__).parent


class Command(Protocol):
    """The interface of a command's module."""

    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


def summaries() -> dict[str, str]:
    """Return HELP by the name of the command."""
    return {path.stem: load(path.stem).HELP
            for path in sorted(FOLDER.glob('*.py'))
            if not path.stem.startswith('_')}


def load(name: str) -> Command:
    """Return the command with this name, which must be in summaries()."""
    return importlib.import_module(  # type: ignore[return-value]
        f'bench.commands.{name}')


def store(parser: argparse.ArgumentParser, suite: bool = True) -> None:
    """Add the arguments of commands that read stored runs."""
    if suite:
        parser.add_argument('--suite', metavar='NAME',
                            help='runs of this suite')
    parser.add_argument('--store', type=pathlib.Path, metavar='FILE',
                        help='of results (build/bench/results.sqlite)')
