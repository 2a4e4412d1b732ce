# SPDX-License-Identifier: Apache-2.0
"""The launcher's own files, of which each load balancer sees its part.

In ``private/<id>``, which a load balancer's uid can read and nobody else but
root:

* ``record.json``, root's alone: what is served, for the next launcher;
* ``configurations/<hash>.cfg``: what is served and what is being checked;
* ``<generation>/haproxy.cfg``: what a master reads, now and at a reload;
* ``certificates/<name>/``.
"""

import contextlib
import json
import os
import pathlib
import shutil
import stat
from typing import NamedTuple

from oslo_log import log as logging

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import proxy_launch
from octavia_xdp_provider.process import atomic_file
from octavia_xdp_provider.process import foreign_file
from octavia_xdp_provider.process.agents import run_directory
from octavia_xdp_provider.proxy.launcher import cgroups
from octavia_xdp_provider.proxy.launcher import orders

LOG = logging.getLogger(__name__)

_RECORD = 'record.json'
_CONFIGURATIONS, _CERTIFICATES = 'configurations', 'certificates'


class Record(NamedTuple):
    """What serves: a generation, its master, and how it was launched."""

    generation: int
    master: cgroups.Process
    launch: proxy_launch.Launch


class Files(run_directory.RunDirectory):
    """Paths and contents below [proxy] run_directory."""

    @property
    def secrets(self) -> str:
        """Directories with certificates (agent → launcher)."""
        return self.path('secrets')

    @property
    def view(self) -> str:
        """Empty; in its own mount namespace the root of a HAProxy."""
        return self.path('view')

    @property
    def lock(self) -> str:
        """Lock of the one launcher."""
        return self.path('launcher.lock')

    def private(self, identity: str) -> pathlib.Path:
        return pathlib.Path(self.path('private'), identity)

    def runtime(self, identity: str) -> pathlib.Path:
        """Directory for the sockets of a HAProxy."""
        return pathlib.Path(self.path('runtime'), identity)

    def _state(self, identity: str) -> pathlib.Path:
        return pathlib.Path(self.path('state'), f'{identity}.json')

    def make(self) -> None:
        """Create the directories.

        :raises OSError: others can write them.
        """
        os.makedirs(self.directory, mode=0o755, exist_ok=True)
        foreign_file.check_own(self.directory)
        for name, mode in (('private', 0o711), ('runtime', 0o711),
                           ('state', 0o755), ('view', 0o700),
                           ('wanted', 0o755)):
            path = self.path(name)
            with contextlib.suppress(FileExistsError):
                os.mkdir(path)
                os.chmod(path, mode)
            if name != 'wanted':
                foreign_file.check_own(path)

    def identities(self) -> set[str]:
        """Return the ids of load balancers that have files."""
        return {*os.listdir(self.path('private')),
                *(name.removesuffix('.json') for name
                  in os.listdir(self.path('state'))
                  if not name.startswith('.'))}

    def load(self, identity: str) -> Record | None:
        """Return what served when the last launcher ended, if it is known."""
        path = self.private(identity) / _RECORD
        try:
            saved = json.loads(path.read_bytes())
            proxy_launch.LAUNCH_SHAPE.check(saved['launch'])
            return Record(int(saved['generation']),
                          cgroups.Process(*map(int, saved['master'])),
                          saved['launch'])
        except FileNotFoundError:
            return None
        except (errors.Refused, OSError, ValueError, KeyError, TypeError
                ) as error:
            LOG.error('%s cannot be used: %s. What runs is replaced.', path,
                      error)
            return None

    def save(self, identity: str, record: Record | None) -> None:
        path = self.private(identity) / _RECORD
        if record is None:
            path.unlink(missing_ok=True)
            return
        atomic_file.replace(path, json.dumps(record._asdict()).encode(),
                            0o600)

    def write_state(self, identity: str, state: proxy_launch.State) -> None:
        atomic_file.replace(self._state(identity),
                            json.dumps(state, indent=1).encode())

    def prepare(self, identity: str, number: int) -> None:
        """Create the directories of a load balancer, as its uid's own."""
        private = self.private(identity)
        for path in (private, private / 'run', private / _CONFIGURATIONS,
                     private / _CERTIFICATES):
            _make(path, number)
        runtime = self.runtime(identity)
        with contextlib.suppress(FileExistsError):
            runtime.mkdir(0o700)
        _share(runtime, number, os.stat(self.wanted).st_gid)

    def take(self, identity: str, launch: proxy_launch.Launch) -> None:
        """Copy configuration and certificates, to be checked.

        :raises NotWhole: they do not have the hash.
        :raises OSError: they cannot be read or copied.
        """
        private, number = self.private(identity), launch['number']
        expected = launch['configuration_hash']
        text = orders.configuration(self.wanted, identity, expected)
        _write(private / _CONFIGURATIONS / f'{expected}.cfg', text, number)
        name = launch['certificates']
        if name is None:
            return
        directory = private / _CERTIFICATES / name
        contents = orders.certificates(self.secrets, identity, name)
        _make(directory, number)
        for file, text in contents.items():
            _write(directory / file, text, number)

    def install(self, identity: str, generation: int,
                launch: proxy_launch.Launch) -> None:
        """Make a configuration that was taken the one of a generation.

        :raises OSError: it cannot be copied.
        """
        private = self.private(identity)
        name = f'{launch["configuration_hash"]}.cfg'
        text = (private / _CONFIGURATIONS / name).read_bytes()
        _make(private / str(generation), launch['number'])
        _write(private / str(generation) / proxy_launch.CONFIGURATION, text,
               launch['number'])

    def clean(self, identity: str, generations: set[int],
              launches: list[proxy_launch.Launch]) -> None:
        """Remove what none of these needs."""
        private = self.private(identity)
        kept = {str(generation) for generation in generations}
        for path in private.glob('[0-9]*'):
            if path.name not in kept:
                shutil.rmtree(path, ignore_errors=True)
        hashes = {launch['configuration_hash'] for launch in launches}
        for path in (private / _CONFIGURATIONS).glob('*.cfg'):
            if path.stem not in hashes:
                path.unlink(missing_ok=True)
        names = {launch['certificates'] for launch in launches}
        for path in (private / _CERTIFICATES).glob('*'):
            if path.name not in names:
                shutil.rmtree(path, ignore_errors=True)

    def remove(self, identity: str) -> None:
        """Remove all files of a load balancer."""
        for path in (self.runtime(identity), self.private(identity)):
            shutil.rmtree(path, ignore_errors=True)
        self._state(identity).unlink(missing_ok=True)


def _share(path: pathlib.Path, number: int, group: int) -> None:
    """Make what HAProxy creates in a directory belong to the agent's group.

    Without CAP_FSETID the kernel keeps that bit only if the directory's group
    is an own one while it is set.
    """
    mode = stat.S_ISGID | stat.S_IRWXU | stat.S_IRWXG
    status = path.stat()
    if (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) != (
            number, group, mode):
        os.chown(path, os.geteuid(), os.getegid())
        path.chmod(mode)
        os.chown(path, number, group)


def _make(path: pathlib.Path, number: int) -> None:
    with contextlib.suppress(FileExistsError):
        path.mkdir(0o700)
    os.chown(path, 0, number)
    path.chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP)


def _write(path: pathlib.Path, text: bytes, number: int) -> None:
    """Write a file that only root can change and only this gid can read."""
    # Group and mode come first: nobody reads a half-made file.
    temporary = path.with_name(f'.{path.name}')
    temporary.unlink(missing_ok=True)
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, 'wb') as opened:
        os.fchown(file, 0, number)
        os.fchmod(file, 0o640)
        opened.write(text)
    os.replace(temporary, path)
