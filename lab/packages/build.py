# SPDX-License-Identifier: Apache-2.0
"""Builds the Debian packages from the tree's sdist, and older ones of them."""

import contextlib
import fcntl
import os
import re
import shutil

from lab import demo_steps
from lab import paths
from lab.packages import commands
from lab.packages import sdist

SOURCE = commands.FOLDER / 'source'
OLD = commands.FOLDER / 'old'
OLD_VERSION = '0.0.1'
# Without Debian's packages of a Rust as new as it must be.
OWN_RUST = 'pkg.octavia-xdp-provider.own-rust'
NAMES = ('liboctavia-xdp8', 'octavia-xdp-host', 'octavia-xdp-member',
         'octavia-xdp-node', 'octavia-xdp-provider')
# What they are built from, for git.
INPUTS = ('constraints.txt', 'datapath', 'deploy/debian', 'deploy/s*',
          'deploy/tmpfiles.d', 'doc/ext', 'doc/requirements.txt',
          'doc/source/cli', 'doc/source/conf.py', 'etc', 'hc-agent',
          'octavia_xdp_provider', 'pyproject.toml', 'requirements.txt',
          'setup.*', ':!*/tests/*')
# A file that an operator may change, of which the older version has another.
CONFFILE = 'etc/sysctl.d/60-octavia-xdp-member.conf'


class Busy(Exception):
    """Somebody else builds or uses the packages of this checkout."""


@contextlib.contextmanager
def locked():
    """Keep others from replacing what is built.

    :raises Busy: somebody else does this.
    """
    paths.BUILD.mkdir(exist_ok=True)
    with open(paths.BUILD / 'packages.lock', 'w') as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy('another one uses the packages of this checkout'
                       ) from None
        yield


def source():
    """Make the source: the sdist, with deploy/debian in its place."""
    shutil.rmtree(commands.FOLDER, ignore_errors=True)
    commands.FOLDER.mkdir(parents=True)
    changelog = (paths.CHECKOUT / 'deploy/debian/changelog').read_text()
    archive = sdist.make(commands.FOLDER,
                         re.search(r'\((.*)\)', changelog)[1])
    commands.run('tar', '--extract', '--file', archive, cwd=commands.FOLDER)
    (commands.FOLDER / archive.name.removesuffix('.tar.gz')).rename(SOURCE)
    shutil.copytree(SOURCE / 'deploy/debian', SOURCE / 'debian')
    return archive.name


def packages():
    """Build all packages."""
    has_cargo = os.path.exists('/var/lib/dpkg/info/cargo-web.list')
    profiles = [] if has_cargo else [f'--build-profiles={OWN_RUST}']
    commands.run(
        'dpkg-buildpackage', '--build=binary', '--unsigned-source',
        '--unsigned-changes', f'--jobs={os.cpu_count()}', *profiles,
        cwd=SOURCE,
        # What does not change from run to run is compiled once.
        CARGO_TARGET_DIR=str(paths.CHECKOUT / 'hc-agent/target'),
        PATH=f'{os.environ["PATH"]}:{os.path.expanduser("~/.cargo/bin")}')
    sizes = [f'{path.name} {path.stat().st_size >> 10} KiB'
             for path in built()]
    return ', '.join(sizes)


def built():
    """Paths of the packages.

    :raises demo_steps.StepFailed: others than those expected.
    """
    found = sorted(commands.FOLDER.glob('*.deb'))
    names = [path.name.partition('_')[0] for path in found]
    demo_steps.expect(names == sorted(NAMES), f'packages: {names}')
    return found


def lintian():
    """No errors, and manual pages; other warnings are counted."""
    log = commands.FOLDER / 'lintian.log'
    said = commands.run('lintian', '--allow-root', '--fail-on', 'none',
                        '--tag-display-limit', '0', *built())
    log.write_text(said)
    errors = [line for line in said.splitlines() if line.startswith('E: ')
              or ' no-manual-page ' in line]
    demo_steps.expect(not errors, '\n'.join(errors[:50]))
    return f'{said.count("W: ")} warnings, see {log.name}'


def dependencies():
    """Names of the packages of others that these need."""
    names = set()
    for path in built():
        text = commands.run('dpkg-deb', '--field', path, 'Depends')
        for alternatives in text.split(','):
            first = alternatives.split('|')[0].split()
            if first and first[0] not in NAMES:
                names.add(first[0])
    return names


def version():
    """That of all packages."""
    return commands.run('dpkg-deb', '--field', built()[0],
                        'Version').strip()


def with_older():
    """Build the packages, unless they are newer than all that they are built
    from, and older ones of them."""
    files = commands.run('git', 'ls-files', '-z', '--', *INPUTS,
                         cwd=paths.CHECKOUT).split('\0')
    newest = max((paths.CHECKOUT / name).stat().st_mtime for name in files
                 if name and (paths.CHECKOUT / name).exists())
    found = list(commands.FOLDER.glob('*.deb'))
    if len(found) == len(NAMES) and newest < min(
            path.stat().st_mtime for path in found):
        said = 'they were there'
    else:
        source()
        said = packages()
    older()
    return said


def older():
    """The same packages with a lower version and another conffile."""
    new = version()
    shutil.rmtree(OLD, ignore_errors=True)
    OLD.mkdir()
    for path in built():
        folder = OLD / path.stem
        commands.run('dpkg-deb', '--raw-extract', path, folder)
        control = folder / 'DEBIAN/control'
        text = control.read_text()
        text = text.replace(f'\nVersion: {new}\n',
                            f'\nVersion: {OLD_VERSION}\n')
        control.write_text(text.replace(f'(= {new})',
                                        f'(= {OLD_VERSION})'))
        conffile = folder / CONFFILE
        if conffile.exists():
            conffile.write_text(conffile.read_text() + '# Older.\n')
        commands.run('dpkg-deb', '--root-owner-group', '-Zgzip', '-z1',
                     '--build', folder, OLD)
        shutil.rmtree(folder)
    return sorted(OLD.glob('*.deb'))
