# SPDX-License-Identifier: Apache-2.0
"""Build the release artifacts of the tree: an sdist, and a wheel from it."""

import shutil

from lab import paths
from lab.packages import commands


def make(folder, version):
    """Build the sdist of tracked files, with their present content.

    Build it in a copy, because pbr writes files and gets names from git.

    :param folder: directory for the sdist, and for the copy meanwhile.
    :returns: its path.
    """
    copy = folder / 'copy'
    names = commands.run('git', 'ls-files', '-z', cwd=paths.CHECKOUT)
    for name in filter(None, names.split('\0')):
        if (paths.CHECKOUT / name).exists():
            target = copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(paths.CHECKOUT / name, target)
    commands.run('git', 'init', '--quiet', cwd=copy)
    commands.run('git', 'add', '--all', '--force', cwd=copy)
    _build(copy, folder, '--sdist', version)
    shutil.rmtree(copy)
    sdist, = folder.glob('*.tar.gz')
    return sdist


def wheel(sdist):
    """Build the wheel of an sdist in its directory, and return its path."""
    _build(sdist, sdist.parent, '--wheel')
    path, = sdist.parent.glob('*.whl')
    return path


def _build(source, folder, kind, version=None):
    environment = {'PBR_VERSION': version} if version else {}
    commands.run(
        paths.CHECKOUT / 'tools/uv', 'build', kind, '--no-build-isolation',
        '--python', paths.VENV / 'bin/python', '--out-dir', folder, source,
        cwd=folder, SKIP_GENERATE_RENO='1', SKIP_GENERATE_AUTHORS='1',
        SKIP_WRITE_GIT_CHANGELOG='1', **environment)
