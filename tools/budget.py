# SPDX-License-Identifier: Apache-2.0
"""The budgets of the tree, tools/budget.toml: who reads and writes them.

For tools, with nothing but Python's own library.
"""

import pathlib
import re

import tomllib

FILE = pathlib.Path(__file__).resolve().with_name('budget.toml')


def lines(file=FILE):
    """Room → how many lines it may have.

    A room is a folder, without those below it that are rooms themselves; "."
    is the root, with all that is in no other room.
    """
    return _section(file, 'lines', int)


def seconds(file=FILE):
    """Part of the tests → how many seconds of processor time it may take.

    Parts have the names by which tools/test runs them. A part that has no
    budget is not in it.
    """
    return _section(file, 'seconds', (int, float))


def types(file=FILE):
    """Return how often annotations may leave a type open, by the way."""
    return _section(file, 'types', int)


def write_lines(numbers, file=FILE):
    """Have these numbers for rooms; comments and all else stay."""
    text = file.read_text()
    for room, number in numbers.items():
        text, changed = re.subn(
            rf'^("{re.escape(room)}" *= *)\d+', rf'\g<1>{number}', text,
            flags=re.MULTILINE)
        if changed != 1:
            raise ValueError(f'{file} has {room} {changed} times')
    file.write_text(text)


def _section(file, name, kind):
    with open(file, 'rb') as stream:
        numbers = tomllib.load(stream)[name]
    wrong = [key for key, number in numbers.items()
             if not isinstance(number, kind) or number < 0]
    if wrong:
        raise ValueError(f'{file}: no number in [{name}]: {", ".join(wrong)}')
    return numbers
