# SPDX-License-Identifier: Apache-2.0
"""Debian packages under test: those in a folder and those on a machine.

The folder is copied to machines as a repository, so that the roles of
operators install the packages as usual.
"""

from collections.abc import Mapping
import dataclasses
import hashlib
import pathlib
import subprocess

from bench import errors
from bench.beds import interface

NODE = 'octavia-xdp-node'
# Patterns of the product's packages for dpkg-query.
OURS = ('octavia-xdp-*', 'liboctavia-xdp*')
# On machines; it stays there like the packages installed from it.
FOLDER = pathlib.PurePosixPath('/var/cache/octavia-xdp-bench/packages')
REPOSITORY = f'deb [trusted=yes] file:{FOLDER} ./'
INDEX = 'Packages'
_TIMEOUT_S = 120


@dataclasses.dataclass(frozen=True)
class Packages:
    """:param version: version of all packages.
    :param contents: digests by package; see contents_of().
    """

    folder: pathlib.Path
    version: str
    contents: Mapping[str, str]


def in_folder(folder: pathlib.Path) -> Packages:
    """:raises BenchError: the node's is missing, or versions differ."""
    versions, contents = {}, {}
    for path in sorted(folder.glob('*.deb')):
        name, version = (
            _run('dpkg-deb', '--field', path, field).strip()
            for field in ('Package', 'Version'))
        if name in versions:
            raise errors.BenchError(
                f'{folder} has {name} twice, as {versions[name]} and '
                f'{version}: one version of each is under test')
        versions[name] = version
        contents[name] = contents_of(
            _run('dpkg-deb', '--info', path, 'md5sums'))
    if NODE not in versions:
        raise errors.BenchError(
            f'{folder} has no package {NODE}; "make packages" builds them '
            'into build/packages')
    if len(set(versions.values())) > 1:
        raise errors.BenchError(
            f'{folder} has packages of several versions: ' + ', '.join(
                f'{name} {version}' for name, version in versions.items()))
    return Packages(folder, versions[NODE], contents)


def contents_of(md5sums: str) -> str:
    """Return a digest of a package's file checksums, which distinguishes
    builds of the same version."""
    lines = sorted(line for line in md5sums.splitlines() if line.strip())
    return hashlib.sha256('\n'.join(lines).encode()).hexdigest()[:16]


def index(packages: Packages) -> str:
    """Return the index of the repository.

    :raises BenchError: dpkg-scanpackages is missing on this machine.
    """
    return _run('dpkg-scanpackages', '--multiversion', '.',
                cwd=packages.folder)


def installed(host: interface.Host) -> dict[str, str]:
    """Return the product's packages on a machine: version and digest."""
    shown = host.run(
        ['dpkg-query', '--show', '--showformat',
         '${db:Status-Status} ${Package} ${Version}\\n', *OURS],
        check=False).stdout
    packages = {}
    for line in shown.splitlines():
        status, name, *version = line.split()
        if status == 'installed':
            sums = host.run(['cat', f'/var/lib/dpkg/info/{name}.md5sums'])
            packages[name] = f'{version[0]} {contents_of(sums.stdout)}'
    return packages


def check(host: interface.Host, has: Mapping[str, str],
          version: str | None, packages: Packages | None) -> None:
    """:raises BenchError: a load balancer lacks the packages under test."""
    if NODE not in has:
        raise errors.BenchError(
            f'host {host.name} has no package {NODE} after its role has run')
    for name, installed in has.items():
        words = installed.split()
        if version is not None and words[0] != version:
            raise errors.BenchError(
                f'host {host.name} has {name} {words[0]} installed, and '
                f'{version} is under test')
        if packages is not None and name in packages.contents and (
                words[1] != packages.contents[name]):
            raise errors.BenchError(
                f'host {host.name} has {name} {version} installed with other '
                f'files than that of {packages.folder}: a version that is '
                'there is not installed again; give these packages another '
                f'one (deploy/debian/changelog), or run "apt-get purge {name}"'
                ' there')


def _run(*arguments, cwd=None):
    try:
        return subprocess.run(
            arguments, cwd=cwd, check=True, text=True, capture_output=True,
            stdin=subprocess.DEVNULL, timeout=_TIMEOUT_S).stdout
    except FileNotFoundError:
        raise errors.BenchError(
            f'{arguments[0]} is not there: install dpkg-dev') from None
    except subprocess.TimeoutExpired:
        raise errors.BenchError(
            f'{arguments[0]} did not end within {_TIMEOUT_S} s') from None
    except subprocess.CalledProcessError as error:
        raise errors.BenchError(
            f'{arguments[0]} failed ({error.returncode}): '
            f'{error.stderr.strip()}') from None
