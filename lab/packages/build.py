# SPDX-License-Identifier: Apache-2.0
"""Build the Debian packages from the tree's sdist, and older versions."""

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
# A build profile for machines without a new enough Rust from Debian.
OWN_RUST = 'pkg.octavia-xdp-provider.own-rust'
NAMES = ('liboctavia-xdp10', 'octavia-xdp-checker', 'octavia-xdp-host',
         'octavia-xdp-member', 'octavia-xdp-node', 'octavia-xdp-provider',
         'octavia-xdp-proxy')
# The sources of the packages, as pathspecs of git.
INPUTS = ('constraints.txt', 'datapath', 'deploy/debian', 'deploy/s*',
          'deploy/tmpfiles.d', 'doc/ext', 'doc/requirements.txt',
          'doc/source/cli', 'doc/source/conf.py', 'etc', 'hc-agent',
          'octavia_xdp_provider', 'pyproject.toml', 'requirements.txt',
          'setup.*', ':!*/tests/*')
# A file that operators may change; the older version has a different one.
CONFFILE = 'etc/sysctl.d/60-octavia-xdp-member.conf'


class Busy(Exception):
    """Another process builds or uses the packages of this checkout."""


@contextlib.contextmanager
def locked():
    """Keep other processes from replacing the packages.

    :raises Busy: another process has the lock.
    """
    paths.BUILD.mkdir(exist_ok=True)
    with open(paths.BUILD / 'packages.lock', 'w') as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy('another process uses the packages of this checkout'
                       ) from None
        yield


def source():
    """Create the source: the sdist, with deploy/debian as debian/."""
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
        # Reuse this checkout's build results.
        CARGO_TARGET_DIR=str(paths.CHECKOUT / 'hc-agent/target'),
        PATH=f'{os.environ["PATH"]}:{os.path.expanduser("~/.cargo/bin")}')
    sizes = [f'{path.name} {path.stat().st_size >> 10} KiB'
             for path in built()]
    return ', '.join(sizes)


def built():
    """Return the paths of the packages.

    :raises demo_steps.StepFailed: they are not those expected.
    """
    archives = sorted(commands.FOLDER.glob('*.deb'))
    names = [path.name.partition('_')[0] for path in archives]
    demo_steps.expect(names == sorted(NAMES), f'packages: {names}')
    return archives


def lintian():
    """Run lintian: errors and missing manual pages fail, warnings count."""
    log = commands.FOLDER / 'lintian.log'
    output = commands.run('lintian', '--allow-root', '--fail-on', 'none',
                          '--tag-display-limit', '0', *built())
    log.write_text(output)
    errors = [line for line in output.splitlines() if line.startswith('E: ')
              or ' no-manual-page ' in line]
    demo_steps.expect(not errors, '\n'.join(errors[:50]))
    return f'{output.count("W: ")} warnings, see {log.name}'


def dependencies():
    """Return the names of Debian's packages that these depend on."""
    names = set()
    for path in built():
        text = commands.run('dpkg-deb', '--field', path, 'Depends')
        for alternatives in text.split(','):
            first = alternatives.split('|')[0].split()
            if first and first[0] not in NAMES:
                names.add(first[0])
    return names


def version():
    """Return the version of the packages."""
    return commands.run('dpkg-deb', '--field', built()[0],
                        'Version').strip()


def with_older():
    """Build the packages, unless they are newer than their sources, and older
    versions of them."""
    files = commands.run('git', 'ls-files', '-z', '--', *INPUTS,
                         cwd=paths.CHECKOUT).split('\0')
    newest = max((paths.CHECKOUT / name).stat().st_mtime for name in files
                 if name and (paths.CHECKOUT / name).exists())
    existing = list(commands.FOLDER.glob('*.deb'))
    if len(existing) == len(NAMES) and newest < min(
            path.stat().st_mtime for path in existing):
        detail = 'they were up to date'
    else:
        source()
        detail = packages()
    older()
    return detail


def older():
    """Create the packages with a lower version and another conffile."""
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
