# SPDX-License-Identifier: Apache-2.0
"""Checkouts of the commits to compare, each a git worktree."""

import pathlib

from bench import errors
from bench.compare import programs

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / 'build/bench/refs'

_GIT_S = 120


def commit(ref: str, root: pathlib.Path = ROOT) -> str:
    """:raises BenchError: there is no such commit."""
    try:
        return programs.run(
            ['git', 'rev-parse', '--verify', '--quiet', '--end-of-options',
             f'{ref}^{{commit}}'], root, _GIT_S).strip()
    except errors.BenchError as error:
        raise errors.BenchError(f'{ref}: no commit of {root}') from error


def checkout(name: str, root: pathlib.Path = ROOT,
             folder: pathlib.Path = FOLDER) -> pathlib.Path:
    """Return the path of an unmodified checkout of the commit.

    It is kept, so that the next comparison need not build it again; remove it
    with "git worktree remove".

    :param name: full name of the commit.
    :raises BenchError: git failed, or files of the checkout were changed.
    """
    path = folder / name
    programs.run(['git', 'worktree', 'prune'], root, _GIT_S)
    if not (path / '.git').exists():
        folder.mkdir(parents=True, exist_ok=True)
        programs.run(['git', 'worktree', 'add', '--quiet', '--force',
                      '--detach', path, name], root, _GIT_S)
    if programs.run(['git', 'status', '--porcelain'], path, _GIT_S):
        raise errors.BenchError(
            f'{path}: files differ from the commit; remove it with "git '
            f'worktree remove --force {path}"')
    if programs.run(['git', 'rev-parse', 'HEAD'], path,
                    _GIT_S).strip() != name:
        raise errors.BenchError(f'{path}: another commit is checked out there')
    return path
