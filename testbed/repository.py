# SPDX-License-Identifier: Apache-2.0
"""The git repository with the configuration of switches and boot server.

It follows the log of leases: each entry that changed ownership becomes a
commit, whose last line contains the entry's number. If a process dies between
a lease and its commit, the next update adds the missing commit. The reference
"applied" is the commit that the last "sync" has applied.
"""

from collections.abc import Mapping
import os
import shutil
import subprocess

from bench import errors
from testbed import configuration
from testbed import folder as folders
from testbed import inventory
from testbed import leases

NAME = 'configuration.git'
LOCK = 'configuration'
BRANCH, APPLIED = 'refs/heads/main', 'refs/applied'
ENTRY = 'Log-Entry: '
TIMEOUT_S = 60


class Repository:
    """The repository of a folder."""

    def __init__(self, folder: folders.Folder):
        self._folder = folder
        self._path = folder.path / NAME

    def follow(self, site: leases.Leases, known: inventory.Inventory,
               who: str) -> tuple[str, dict[str, str]]:
        """Commit entries of the log that the repository lacks.

        :param who: the author if only the inventory has changed.
        :returns: the newest commit and its files.
        """
        with self._folder.lock(LOCK):
            self._open()
            for entry in site.changes_after(self._last_entry()):
                self._commit(configuration.render(
                    site.as_of(entry.number), known), entry.who,
                    f'Lease {entry.lease}: {entry.action}\n\n{entry.text}',
                    entry.at, entry.number)
            last = self._last_entry()
            files = configuration.render(site.as_of(last), known)
            if self._head() is None or self.files() != files:
                self._commit(files, who, 'Inventory: what is rendered of it '
                             'has changed', site.now(), last)
            return str(self._head()), files

    def diff(self) -> str:
        """Return the diff from the applied to the wanted configuration."""
        if self._head() is None:
            return ''
        return self._git('diff', '--no-color', '--no-ext-diff',
                         self._resolve(APPLIED) or self._empty(), BRANCH)

    def history(self) -> str:
        """Return all commits, the newest first."""
        return self._git('log', '--format=%h %an %s', BRANCH)

    def mark_applied(self, commit: str) -> None:
        """Record the commit that is applied."""
        with self._folder.lock(LOCK):
            self._open()
            self._git('update-ref', APPLIED, commit)

    def is_applied(self) -> bool:
        """Whether the newest commit is applied."""
        return self._head() == self._resolve(APPLIED)

    def files(self) -> dict[str, str]:
        """Return the files of the newest commit."""
        names = self._git('ls-tree', '-r', '--name-only', '-z', BRANCH)
        return {name: self._git('cat-file', 'blob', f'{BRANCH}:{name}')
                for name in names.split('\0') if name}

    def _open(self) -> None:
        """Create the repository if necessary; remove stale locks of git.

        The folder's lock is held, so no process holds git's.
        """
        self._git('init', '--quiet', '--bare', '--initial-branch=main',
                  str(self._path))
        for lock in self._path.rglob('*.lock'):
            lock.unlink()

    def _head(self) -> str | None:
        return self._resolve(BRANCH)

    def _resolve(self, reference: str) -> str | None:
        if not self._path.exists():
            return None
        return self._git('for-each-ref', '--format=%(objectname)',
                         reference).strip() or None

    def _empty(self) -> str:
        return self._git('hash-object', '-t', 'tree', '--stdin').strip()

    def _last_entry(self) -> int:
        if self._head() is None:
            return 0
        message = self._git('log', '-1', '--format=%B', BRANCH)
        return int(message.strip().rpartition('\n')[2].removeprefix(ENTRY))

    def _commit(self, files: Mapping[str, str], author: str, message: str,
                at: int, entry: int) -> None:
        head = self._head()
        stream = [_line(f'commit {BRANCH}'),
                  _line(f'author {author} <{author}> {at} +0000'),
                  _line(f'committer octavia-xdp-bench <> {at} +0000'),
                  _data(f'{message}\n\n{ENTRY}{entry}\n'),
                  _line(f'from {head}') if head else b'',
                  _line('deleteall')]
        for name, text in sorted(files.items()):
            stream += [_line(f'M 100644 inline {name}'), _data(text)]
        self._git('fast-import', '--quiet', '--done',
                  given=b''.join([*stream, _line('done')]))

    def _git(self, *words: str, given: bytes = b'') -> str:
        git = shutil.which('git')
        if git is None:
            raise errors.BenchError('git is missing; install it')
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith('GIT_')}
        done = subprocess.run(
            [git, *words], input=given, capture_output=True,
            timeout=TIMEOUT_S, env={
                **environment, 'GIT_DIR': str(self._path),
                'GIT_CONFIG_GLOBAL': os.devnull, 'GIT_CONFIG_NOSYSTEM': '1',
                'LC_ALL': 'C.UTF-8'})
        if done.returncode:
            raise errors.BenchError(
                f'{self._path}: git {words[0]}: '
                f'{done.stderr.decode(errors="replace").strip()}')
        return done.stdout.decode()


def _line(text: str) -> bytes:
    return text.encode() + b'\n'


def _data(text: str) -> bytes:
    content = text.encode()
    return b'data %d\n%b\n' % (len(content), content)
