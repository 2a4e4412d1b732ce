# SPDX-License-Identifier: Apache-2.0
"""What the agent keeps of each load balancer: its number, which members its
configuration has as down, and which generation is served.

The number is the uid of its HAProxy processes. A load balancer keeps it as
long as anything of it may run. Which members were down when a configuration
was rendered is kept so that a restarted agent renders the same text: another
one would be a reload. The last generation that was served is kept for the
first reports of a restarted agent: it may have to wait for secrets before it
knows what should run, and controllers would think that nothing does.

Each load balancer has a file. It is written before anything that depends on
it.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import contextlib
import json
import os
import pathlib
from typing import NamedTuple

from oslo_log import log as logging

from octavia_xdp_provider.process import atomic_file

LOG = logging.getLogger(__name__)

_SUFFIX = '.json'
_MODE = 0o600


class Record(NamedTuple):
    """:ivar number: uid. :ivar down: sorted ids of members. :ivar generation:
        the last one that HAProxy served, 0 if there is none."""

    number: int
    down: tuple[str, ...] = ()
    generation: int = 0


class NoNumber(Exception):
    """All numbers are in use."""


class Records:
    """Records of load balancers by id. Not thread-safe.

    :param numbers: that may be given to load balancers.
    :param served: numbers of load balancers by id, as the launcher has been
        told before; used in place of records that are lost.
    """

    def __init__(self, directory: str, numbers: range,
                 served: Mapping[str, int]) -> None:
        self._directory = pathlib.Path(directory)
        self._numbers = numbers
        self._records: dict[str, Record] = {}
        self._owners: dict[int, str] = {}
        self._next = 0  # index of the number to be tried next
        for key, record in self._load():
            self._take(key, record)
        for key, number in served.items():
            if key not in self._records and self._is_free(number):
                self._save(key, Record(number))

    def _load(self) -> Iterable[tuple[str, Record]]:
        for path in sorted(self._directory.glob(f'*{_SUFFIX}')):
            if path.name.startswith('.'):
                with contextlib.suppress(OSError):
                    path.unlink()
                continue
            try:
                saved = json.loads(path.read_bytes())
                record = Record(int(saved['number']),
                                tuple(map(str, saved['down'])),
                                int(saved['generation']))
            except (OSError, ValueError, KeyError, TypeError) as error:
                LOG.error('%s cannot be used (%s); the load balancer may get '
                          'another number, and a reload.', path, error)
                continue
            yield path.name.removesuffix(_SUFFIX), record

    def _is_free(self, number: int) -> bool:
        return number in self._numbers and number not in self._owners

    def _take(self, key: str, record: Record) -> None:
        if self._is_free(record.number):
            self._records[key] = record
            self._owners[record.number] = key

    def ids(self) -> set[str]:
        return set(self._records)

    def of(self, key: str) -> Record:
        """Return the record of a load balancer, which is created if there is
        none.

        :raises NoNumber: no number is free.
        :raises OSError: the record cannot be written.
        """
        record = self._records.get(key)
        if record is None:
            record = Record(self._free_number())
            self._save(key, record)
        return record

    def _free_number(self) -> int:
        """Return a number that has been free for long: the launcher may just
        be about to see that one is."""
        count = len(self._numbers)
        first = self._next
        for offset in range(count):
            number = self._numbers[(first + offset) % count]
            if number not in self._owners:
                self._next = (first + offset + 1) % count
                return number
        raise NoNumber(f'all {count} numbers of [proxy] number_min to '
                       'number_max are in use')

    def keep_down(self, key: str, down: Iterable[str]) -> None:
        """Note which members a configuration has as down.

        :raises OSError: the record cannot be written.
        """
        record = self.of(key)._replace(down=tuple(sorted(down)))
        if record != self._records[key]:
            self._save(key, record)

    def generation(self, key: str) -> int:
        """Return the last generation that HAProxy served, or 0."""
        record = self._records.get(key)
        return record.generation if record else 0

    def keep_generation(self, key: str, generation: int) -> None:
        """Note which generation HAProxy serves.

        :raises OSError: the record cannot be written.
        """
        record = self.of(key)._replace(generation=generation)
        if record != self._records[key]:
            self._save(key, record)

    def _save(self, key: str, record: Record) -> None:
        atomic_file.replace(
            self._directory / f'{key}{_SUFFIX}',
            json.dumps(record._asdict()).encode(), _MODE, clean=False)
        self._records[key] = record
        self._owners[record.number] = key

    def remove(self, key: str) -> None:
        """Forget a load balancer of which nothing runs any more.

        :raises OSError: its file cannot be removed.
        """
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._directory / f'{key}{_SUFFIX}')
        record = self._records.pop(key, None)
        if record is not None:
            del self._owners[record.number]
