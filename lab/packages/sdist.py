# SPDX-License-Identifier: Apache-2.0
"""The tree as it is released: an sdist, and a wheel from it."""

import shutil

from lab import paths
from lab.packages import commands


def make(folder, version):
    """Make the sdist of the files that git knows, as they are now.

    It is made in a copy: pbr writes files, and asks git for names.

    :param folder: where it goes, with the copy beside it.
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
    """Make the wheel of an sdist, beside it, and return its path."""
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
