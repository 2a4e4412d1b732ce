# SPDX-License-Identifier: Apache-2.0
"""Numbers of address sets.

Documents name sets by UUID, the datapath by a number. Which is whose is kept
in a file, written before the datapath has it: an agent that is killed in
between, and a set that goes while it is away, leave no addresses behind that
nobody takes away. Without the file most numbers come out the same, since they
begin with a hash of the id.
"""

import hashlib
import json
import pathlib

from oslo_log import log as logging

from octavia_xdp_provider.common import atomic_file

LOG = logging.getLogger(__name__)

_MODE = 0o600
_NUMBERS = 1 << 32


class Numbers:
    """Belongs to one thread.

    :param path: of the file.
    """

    def __init__(self, path: str) -> None:
        self._path = pathlib.Path(path)
        self._numbers = self._load()

    def _load(self) -> dict[str, int]:
        try:
            found = json.loads(self._path.read_bytes())
            return {str(key): int(number) for key, number in found.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError, TypeError) as error:
            LOG.error('%s cannot be used (%s). Address sets that have gone '
                      'meanwhile keep their addresses in the datapath; no '
                      'rule names them.', self._path, error)
            return {}

    @property
    def ids(self) -> frozenset[str]:
        """All that have a number."""
        return frozenset(self._numbers)

    def get(self, set_id: str) -> int | None:
        return self._numbers.get(set_id)

    def give(self, set_id: str) -> int:
        """The number of a set.

        :raises OSError: the file cannot be written.
        """
        number = self._numbers.get(set_id)
        if number is not None:
            return number
        taken = set(self._numbers.values())
        digest = hashlib.sha256(set_id.encode()).digest()
        number = int.from_bytes(digest[:4], 'big')
        while not number or number in taken:
            number = (number + 1) % _NUMBERS
        self._write({**self._numbers, set_id: number})
        return number

    def forget(self, set_id: str) -> None:
        """Its addresses are gone from the datapath.

        :raises OSError: the file cannot be written.
        """
        if set_id in self._numbers:
            self._write({key: number for key, number in self._numbers.items()
                         if key != set_id})

    def _write(self, numbers: dict[str, int]) -> None:
        atomic_file.replace(self._path, json.dumps(numbers).encode(), _MODE)
        self._numbers = numbers
