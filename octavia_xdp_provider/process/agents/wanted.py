# SPDX-License-Identifier: Apache-2.0
"""The wanted state of an LB node or a hypervisor, and a cache of it.

The cache has a file for each document, so that a change writes only the
documents it affects, and a file with the generation of their fetch. With it
an agent that restarts without a controller keeps working. The files name the
targets of all tenants, so only the agent can read them.
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

from octavia_xdp_provider.process import atomic_file
from octavia_xdp_provider.process import foreign_file

LOG = logging.getLogger(__name__)

_SUFFIX = '.json'
_AS_OF = 'as_of'
_MODE = 0o600
_DIRECTORY_MODE = 0o700

# Generation and document. A changed document is a new object.
Entry = tuple[int, dict[str, Any]]

# Flags of an entry, besides its document: see Wanted.
MARKS = ('draining', 'withdrawn')


class Wanted(NamedTuple):
    """The state that the controller wants of this agent.

    ``documents``: id → (generation, document), of load balancers on an LB
    node, of ports and address sets on a hypervisor; never modified, but
    replaced by another dictionary. ``draining``: ids of load balancers to be
    announced as a last resort; ``withdrawn``: ids of those not to be
    announced at all, whose existing flows continue. A load balancer that
    begins or ends either gets a new generation.
    """

    as_of: int
    documents: Mapping[str, Entry]
    draining: frozenset[str] = frozenset()
    withdrawn: frozenset[str] = frozenset()

    def marks(self) -> dict[str, set[str]]:
        """Return the ids by name of MARKS, as new sets."""
        return {name: set(getattr(self, name)) for name in MARKS}


class Cache:
    """A cache of the wanted state. Not thread-safe.

    :param directory: of the files, created by the first ``save``.
    """

    def __init__(self, directory: str) -> None:
        self._directory = pathlib.Path(directory)
        self._unsaved: set[str] = set()
        self._saved_as_of: int | None = None
        self.error: str | None = None  # why it could not be written

    def load(self) -> Wanted | None:
        """Return the last saved state; None if there is none to use."""
        path = self._directory
        try:
            if not (path / _AS_OF).exists():
                return None
            foreign_file.check_own(path)
            documents = {}
            marks: dict[str, set[str]] = {name: set() for name in MARKS}
            for path in sorted(self._directory.glob(f'[!.]*{_SUFFIX}')):
                cached = json.loads(path.read_bytes())
                key = path.name.removesuffix(_SUFFIX)
                documents[key] = _entry(cached)
                for name, ids in marks.items():
                    if cached.get(name):
                        ids.add(key)
            path = self._directory / _AS_OF
            self._saved_as_of = int(path.read_bytes())
            return Wanted(self._saved_as_of, documents, **{
                name: frozenset(ids) for name, ids in marks.items()})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            LOG.error('%s cannot be used (%s); waiting for the controller.',
                      path, _short(error))
            return None

    def save(self, wanted: Wanted, changed: Iterable[str]) -> None:
        """Write what has changed. A failure does not stop the agent.

        :param changed: ids of added, removed and changed documents.
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
                          'use its outdated content.', self._directory,
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
        # Written last: the controller sends again what is newer than this.
        atomic_file.replace(self._directory / _AS_OF,
                            str(wanted.as_of).encode(), _MODE)
        self._saved_as_of = wanted.as_of

    def _remove_others(self, wanted: Wanted) -> None:
        """Remove files of an unusable cache, and temporary files of a writer
        that was killed."""
        for path in self._directory.iterdir():
            if path.name.removesuffix(_SUFFIX) not in wanted.documents:
                with contextlib.suppress(OSError):
                    os.unlink(path)


def _entry(cached: dict[str, Any]) -> Entry:
    return int(cached['generation']), dict(cached['document'])


def _short(error: Exception) -> str:
    text = str(error)
    return text if len(text) <= 200 else f'{text[:200]}…'
