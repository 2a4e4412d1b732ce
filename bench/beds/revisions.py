# SPDX-License-Identifier: Apache-2.0
"""Builds Debian packages of a git revision, to provision machines with.

Each revision is built once, by its own lab/packages. The version includes the
commit and its time, so that each commit is a different version and later
commits are newer.
"""

from collections.abc import Iterator
import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import sys

from bench import errors
from bench.compare import checkouts
from bench.compare import programs
from lab import paths

FOLDER = paths.BUILD / 'bench/packages'
_CHANGELOG = 'deploy/debian/changelog'
_BUILD = ('from lab.packages import build\n'
          'build.source()\nbuild.packages()\n')
_BUILD_S = 3600
_GIT_S = 120


def packages_of(ref: str, root: pathlib.Path = checkouts.ROOT,
                folder: pathlib.Path = FOLDER) -> pathlib.Path:
    """Return a folder with the packages; build them if necessary.

    :param root: a checkout with the commit, set up by tools/setup.
    :param folder: parent of the commits' folders.
    :raises BenchError: there is no such commit, or it cannot be built.
    """
    commit = checkouts.commit(ref, root)
    made = folder / commit
    with _locked(folder):
        if not made.exists():
            print(f'packages of {commit[:12]} are built, which takes some '
                  'minutes', file=sys.stderr)
            with _tree(commit, root, folder) as tree:
                _name_version(tree, commit)
                programs.run([sys.executable, '-P', '-c', _BUILD], tree,
                             _BUILD_S, {**os.environ, 'PYTHONPATH': str(tree)})
                _keep(tree / 'build/packages', made)
    return made


@contextlib.contextmanager
def _locked(folder):
    """Build one revision at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / '.lock', 'a') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _tree(commit, root, folder) -> Iterator[pathlib.Path]:
    """Check the commit out while it is built."""
    tree = folder / 'tree'
    shutil.rmtree(tree, ignore_errors=True)  # Left by a killed build.
    programs.run(['git', 'worktree', 'prune'], root, _GIT_S)
    programs.run(['git', 'worktree', 'add', '--quiet', '--force', '--detach',
                  tree, commit], root, _GIT_S)
    try:
        # Reuse the environments of this checkout and compiled dependencies.
        for name in 'build/venv', 'build/bootstrap', 'hc-agent/target':
            if (root / name).exists():
                (tree / name).parent.mkdir(exist_ok=True)
                (tree / name).symlink_to(root / name)
        yield tree
    finally:
        programs.run(['git', 'worktree', 'remove', '--force', tree], root,
                     _GIT_S)


def _name_version(tree, commit):
    when = programs.run(['git', 'show', '--no-patch', '--format=%ct', commit],
                        tree, _GIT_S).strip()
    path = tree / _CHANGELOG
    if not path.exists():
        raise errors.BenchError(f'{commit} has no {_CHANGELOG}: it is older '
                                'than the packages')
    # A local version of PEP 440, which is also valid for Debian.
    path.write_text(re.sub(r'\((.*?)\)', rf'(\1+{when}.g{commit[:12]})',
                           path.read_text(), count=1))


def _keep(built, made):
    packages = list(built.glob('*.deb'))
    if not packages:
        raise errors.BenchError(f'{made.name}: no package was built')
    new = made.with_name('new')
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    for path in packages:
        shutil.copy2(path, new)
    new.rename(made)
