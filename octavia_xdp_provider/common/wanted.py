# SPDX-License-Identifier: Apache-2.0
"""What the controller wants of an LB node or a hypervisor, and a cache of it.

The cache has a file for each document, so that a change costs what it is
about, and one that says of which fetch they are. After a restart without a
controller the agent goes on looking after what it has. The files name the
targets of all tenants: nobody else reads them.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import contextlib
import json
import os
import pathlib
from typing import Any
from typing import NamedTuple

from oslo_log import log as logging

from octavia_xdp_provider.common import atomic_file
from octavia_xdp_provider.common import foreign_file

LOG = logging.getLogger(__name__)

_SUFFIX = '.json'
_AS_OF = 'as_of'
_MODE = 0o600
_DIRECTORY_MODE = 0o700

# Generation and document. A changed document is another object.
Entry = tuple[int, dict[str, Any]]

# Of an entry, beside its document: see Wanted.
MARKS = ('draining', 'withdrawn')


class Wanted(NamedTuple):
    """What the controller wants of this agent.

    ``documents``: id → (generation, document), of load balancers on an LB
    node, of ports and address sets on a hypervisor; is never changed, there
    is another dictionary instead. ``draining``: ids of load balancers that
    are to be announced as a last resort; ``withdrawn``: of those that are
    not to be announced at all, and whose flows that are there go on. Whoever
    begins or ends that has another generation.
    """

    as_of: int
    documents: Mapping[str, Entry]
    draining: frozenset[str] = frozenset()
    withdrawn: frozenset[str] = frozenset()

    def marks(self) -> dict[str, set[str]]:
        """Name of MARKS → ids; new sets."""
        return {name: set(getattr(self, name)) for name in MARKS}


class Cache:
    """Belongs to one thread.

    :param directory: of the files, made by the first ``save``.
    """

    def __init__(self, directory: str) -> None:
        self._directory = pathlib.Path(directory)
        self._unsaved: set[str] = set()
        self._saved_as_of: int | None = None
        self.error: str | None = None  # why it could not be written

    def load(self) -> Wanted | None:
        """What was saved last; None if there is nothing that can be used."""
        path = self._directory
        try:
            if not (path / _AS_OF).exists():
                return None
            foreign_file.check_own(path)
            found = {}
            marks: dict[str, set[str]] = {name: set() for name in MARKS}
            for path in sorted(self._directory.glob(f'[!.]*{_SUFFIX}')):
                cached = json.loads(path.read_bytes())
                key = path.name.removesuffix(_SUFFIX)
                found[key] = _entry(cached)
                for name, ids in marks.items():
                    if cached.get(name):
                        ids.add(key)
            path = self._directory / _AS_OF
            self._saved_as_of = int(path.read_bytes())
            return Wanted(self._saved_as_of, found, **{
                name: frozenset(ids) for name, ids in marks.items()})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            LOG.error('%s cannot be used (%s); waiting for the controller.',
                      path, _short(error))
            return None

    def save(self, wanted: Wanted, changed: Iterable[str]) -> None:
        """Write what has changed. Without it everything is done as well.

        :param changed: ids of what came, went or is another.
        """
        self._unsaved.update(changed)
        if not self._unsaved and wanted.as_of == self._saved_as_of:
            return
        try:
            self._write(wanted)
        except OSError as error:
            if self.error is None:
                LOG.error('The cache %s cannot be written (%s). After a '
                          'restart without a controller this agent would '
                          'go back to what it holds.', self._directory,
                          error.strerror or error)
            self.error = str(error.strerror or error)
            return
        if self.error is not None:
            LOG.info('The cache %s can be written again.', self._directory)
        self.error = None

    def _write(self, wanted: Wanted) -> None:
        if not self._directory.exists():
            self._directory.mkdir(mode=_DIRECTORY_MODE)
            self._unsaved.update(wanted.documents)
        foreign_file.check_own(self._directory)
        if self._saved_as_of is None:
            self._remove_others(wanted)
        for key in sorted(self._unsaved):
            path = self._directory / f'{key}{_SUFFIX}'
            entry = wanted.documents.get(key)
            if entry is None:
                path.unlink(missing_ok=True)
            else:
                cached = {'generation': entry[0], 'document': entry[1]}
                cached.update((name, True) for name, ids
                              in wanted.marks().items() if key in ids)
                atomic_file.replace(path, json.dumps(cached).encode(), _MODE,
                                    clean=False)
            self._unsaved.discard(key)
        # Last: what is newer than this is sent again.
        atomic_file.replace(self._directory / _AS_OF,
                            str(wanted.as_of).encode(), _MODE)
        self._saved_as_of = wanted.as_of

    def _remove_others(self, wanted: Wanted) -> None:
        """What a cache that could not be used has left, and temporary
        files of a writer that was killed."""
        for path in self._directory.iterdir():
            if path.name.removesuffix(_SUFFIX) not in wanted.documents:
                with contextlib.suppress(OSError):
                    os.unlink(path)


def _entry(cached: dict[str, Any]) -> Entry:
    return int(cached['generation']), dict(cached['document'])


def _short(error: Exception) -> str:
    text = str(error)
    return text if len(text) <= 200 else f'{text[:200]}…'
