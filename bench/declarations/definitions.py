# SPDX-License-Identifier: Apache-2.0
"""Finds declarations: those of the checkout by name, others by path."""

import pathlib

from bench import errors

FOLDER = pathlib.Path(__file__).parents[1] / 'definitions'
BEDS, SCENARIOS, SUITES = 'beds', 'scenarios', 'suites'


def names(kind: str) -> list[str]:
    return sorted(path.stem for path in (FOLDER / kind).glob('*.yaml'))


def find(kind: str, name: str, beside: pathlib.Path | None = None,
         ) -> pathlib.Path:
    """Return the file of a declaration.

    :param name: a name, or a path that ends with .yaml.
    :param beside: the file that refers to it, whose folder is searched first.
    :raises BenchError: there is no such file.
    """
    if name.endswith(('.yaml', '.yml')):
        return pathlib.Path(name)
    folders = [FOLDER / kind]
    if beside is not None:
        folders.insert(0, beside.parent)
    for folder in folders:
        path = folder / f'{name}.yaml'
        if path.exists() and path != beside:
            return path
    raise errors.BenchError(
        f'no {kind[:-1]} "{name}": there are {", ".join(names(kind))}; for a '
        'file of your own give its path, which ends with .yaml')
