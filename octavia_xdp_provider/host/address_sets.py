# SPDX-License-Identifier: Apache-2.0
"""Numbers of address sets.

Documents identify sets by UUID, the datapath by number. A file maps one to
the other; it is written before the datapath is, so that no addresses are
orphaned if the agent is killed in between or a set is deleted while it is
down. If the file is lost, most numbers stay the same because they start from
a hash of the UUID.
"""

import hashlib
import json
import pathlib

from oslo_log import log as logging

from octavia_xdp_provider.process import atomic_file

LOG = logging.getLogger(__name__)

_MODE = 0o600
_NUMBERS = 1 << 32


class Numbers:
    """Numbers by set id; not thread-safe.

    :param path: path of the file.
    """

    def __init__(self, path: str) -> None:
        self._path = pathlib.Path(path)
        self._numbers = self._load()

    def _load(self) -> dict[str, int]:
        try:
            stored = json.loads(self._path.read_bytes())
            return {str(key): int(number) for key, number in stored.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError, TypeError) as error:
            LOG.error('%s cannot be used (%s). Address sets deleted in the '
                      'meantime keep their addresses in the datapath; no '
                      'rule refers to them.', self._path, error)
            return {}

    @property
    def ids(self) -> frozenset[str]:
        """Ids of all sets that have a number."""
        return frozenset(self._numbers)

    def get(self, set_id: str) -> int | None:
        return self._numbers.get(set_id)

    def give(self, set_id: str) -> int:
        """Return the number of a set; assign one if it has none.

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
        """Release a number after the datapath has dropped its addresses.

        :raises OSError: the file cannot be written.
        """
        if set_id in self._numbers:
            self._write({key: number for key, number in self._numbers.items()
                         if key != set_id})

    def _write(self, numbers: dict[str, int]) -> None:
        atomic_file.replace(self._path, json.dumps(numbers).encode(), _MODE)
        self._numbers = numbers
