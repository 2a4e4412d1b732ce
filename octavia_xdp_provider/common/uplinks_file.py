# SPDX-License-Identifier: Apache-2.0
"""What the agent says to the health checker about this node's uplinks.

The file's meaning and test vectors are in ``contracts/uplinks-file.json``.
"""

from collections.abc import Mapping
import contextlib
from importlib import resources
import json
import os
from typing import Any
from typing import NamedTuple

CONTRACT: dict[str, Any] = json.loads(
    resources.files('octavia_xdp_provider.common')
    .joinpath('contracts').joinpath('uplinks-file.json')
    .read_text(encoding='utf-8')
)
VERSION: int = CONTRACT['version']
FILE_NAME: str = CONTRACT['names']['file']
SOCKET_NAME: str = CONTRACT['names']['socket']

_FAMILIES = {'4': 4, '6': 6}


class UplinksFileError(ValueError):
    """A text that is no such file."""


class Family(NamedTuple):
    """What is known of one family; times are CLOCK_MONOTONIC's.

    ``as_of_ns``: up to when it is known; ``since_ns``: since when some
    uplink worked without a break, None if none works.
    """

    as_of_ns: int
    since_ns: int | None


def encode(families: Mapping[int, Family]) -> bytes:
    """The file that says this of families 4 and 6."""
    return json.dumps({'version': VERSION, 'families': {
        str(family): known._asdict()
        for family, known in sorted(families.items())}}).encode()


def decode(text: str | bytes) -> dict[int, Family]:
    """What a file says.

    :raises UplinksFileError: it is none, or of another version.
    """
    try:
        document = json.loads(text)
        if set(document) != {'version', 'families'} or (
                document['version'] != VERSION):
            raise UplinksFileError('not of this version')
        return {_FAMILIES[family]: _family(**fields)
                for family, fields in document['families'].items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UplinksFileError(f'no file about uplinks: {error}') from error


def _family(as_of_ns: int, since_ns: int | None) -> Family:
    for time_ns in (as_of_ns, 0 if since_ns is None else since_ns):
        if type(time_ns) is not int or time_ns < 0:
            raise UplinksFileError(f'{time_ns!r} is no time')
    return Family(as_of_ns, since_ns)


def write(directory: str, families: Mapping[int, Family]) -> None:
    """Replace the file. Nothing is synced: after a crash it is worthless.

    :raises OSError: it cannot be written.
    """
    path = os.path.join(directory, FILE_NAME)
    # Always the same: there is one writer, and a killed one leaves one file.
    temporary = f'{path}.new'
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    # Its reader, who is in the file's group, does not write it.
    with os.fdopen(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY,
                           0o640), 'wb') as file:
        file.write(encode(families))
    os.replace(temporary, path)

