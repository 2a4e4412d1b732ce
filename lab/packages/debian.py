# SPDX-License-Identifier: Apache-2.0
"""Minimal Debian roots, by mmdebstrap from this machine's apt sources."""

import contextlib
import hashlib
import os
import pathlib
import re
import shutil
import time

from lab import demo_steps
from lab import paths
from lab.packages import commands

# Archives are reused for a day, because packages seldom change.
CACHE = paths.BUILD / 'debian-roots'
CACHED_S = 24 * 3600
SOURCES = (pathlib.Path('/etc/apt/sources.list.d/debian.sources'),
           pathlib.Path('/etc/apt/sources.list'))


def own_release():
    """Return the code name of this machine's Debian."""
    return commands.run(
        'sh', '-c', '. /etc/os-release; echo $VERSION_CODENAME').strip()


def unpack(release, names, *roots):
    """Unpack a minimal Debian with some packages.

    :param roots: directories, which are replaced.
    :returns: 'made' or 'made before', if the archive was cached.
    """
    archive, how = _archive(release, names)
    for root in roots:
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        commands.run('tar', '--extract', '--numeric-owner', '--xattrs',
                     '--file', archive, '--directory', root)
    return how


def _archive(release, names):
    include = ','.join(sorted(names))
    digest = hashlib.sha256(f'{release} {include}'.encode()).hexdigest()
    archive = CACHE / f'{digest[:16]}.tar'
    if archive.exists() and (
            time.time() - archive.stat().st_mtime < CACHED_S):
        return archive, 'made before'
    CACHE.mkdir(parents=True, exist_ok=True)
    for path in CACHE.iterdir():
        # Another process may remove it at the same time.
        with contextlib.suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > CACHED_S:
                path.unlink()
    new = archive.with_name(f'new-{os.getpid()}.tar')
    sources = new.with_suffix(_source().suffix)
    sources.write_text(re.sub(rf'\b{own_release()}\b', release,
                              _source().read_text()))
    try:
        commands.run('mmdebstrap', '--variant=minbase',
                     f'--include={include}', release, new, sources)
        new.rename(archive)
    finally:
        new.unlink(missing_ok=True)
        sources.unlink()
    return archive, 'made'


def _source():
    for path in SOURCES:
        if path.exists():
            return path
    raise demo_steps.StepFailed(
        f'apt has no sources of Debian in {SOURCES[0]} and {SOURCES[1]}')
