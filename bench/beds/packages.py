# SPDX-License-Identifier: Apache-2.0
"""Debian packages under test: what a folder has of them, and what a machine.

Machines get a repository of their own from the folder, so that the roles of
operators install them as they do all others.
"""

from collections.abc import Mapping
import dataclasses
import hashlib
import pathlib
import subprocess

from bench import errors
from bench.beds import interface

NODE = 'octavia-xdp-node'
# The product's packages, as dpkg-query takes it.
OURS = ('octavia-xdp-*', 'liboctavia-xdp*')
# On machines; it stays there, as what is installed from it does.
FOLDER = pathlib.PurePosixPath('/var/cache/octavia-xdp-bench/packages')
REPOSITORY = f'deb [trusted=yes] file:{FOLDER} ./'
INDEX = 'Packages'
_TIMEOUT_S = 120


@dataclasses.dataclass(frozen=True)
class Packages:
    """:param version: of all of them.
    :param contents: by package; see contents_of().
    """

    folder: pathlib.Path
    version: str
    contents: Mapping[str, str]


def in_folder(folder: pathlib.Path) -> Packages:
    """:raises BenchError: none of the node, or not all have one version."""
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
    """A digest of a package's files, by its list of theirs: two builds of one
    version are told apart by it."""
    lines = sorted(line for line in md5sums.splitlines() if line.strip())
    return hashlib.sha256('\n'.join(lines).encode()).hexdigest()[:16]


def index(packages: Packages) -> str:
    """Of the repository.

    :raises BenchError: dpkg-scanpackages is missing here.
    """
    return _run('dpkg-scanpackages', '--multiversion', '.',
                cwd=packages.folder)


def installed(host: interface.Host) -> dict[str, str]:
    """The product's packages on a machine: version and contents."""
    shown = host.run(
        ['dpkg-query', '--show', '--showformat',
         '${db:Status-Status} ${Package} ${Version}\\n', *OURS],
        check=False).stdout
    found = {}
    for line in shown.splitlines():
        status, name, *version = line.split()
        if status == 'installed':
            sums = host.run(['cat', f'/var/lib/dpkg/info/{name}.md5sums'])
            found[name] = f'{version[0]} {contents_of(sums.stdout)}'
    return found


def check(host: interface.Host, has: Mapping[str, str],
          version: str | None, packages: Packages | None) -> None:
    """:raises BenchError: a load balancer has not what is under test."""
    if NODE not in has:
        raise errors.BenchError(
            f'host {host.name} has no package {NODE} after its role has run')
    for name, found in has.items():
        if version is not None and found.split()[0] != version:
            raise errors.BenchError(
                f'host {host.name} has {name} {found.split()[0]} installed, '
                f'and {version} is under test')
        if packages is not None and name in packages.contents and (
                found.split()[1] != packages.contents[name]):
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
