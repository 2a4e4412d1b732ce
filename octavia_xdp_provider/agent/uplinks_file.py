# SPDX-License-Identifier: Apache-2.0
"""The file that tells the health checker the state of this node's uplinks.

Its meaning and test vectors are in ``contracts/uplinks-file.json``.
"""

from collections.abc import Mapping
import contextlib
from importlib import resources
import json
import os
from typing import Any
from typing import NamedTuple

CONTRACT: dict[str, Any] = json.loads(
    resources.files('octavia_xdp_provider.contracts')
    .joinpath('uplinks-file.json')
    .read_text(encoding='utf-8')
)
VERSION: int = CONTRACT['version']
FILE_NAME: str = CONTRACT['names']['file']
SOCKET_NAME: str = CONTRACT['names']['socket']

_FAMILIES = {'4': 4, '6': 6}


class UplinksFileError(ValueError):
    """The text is not a valid uplinks file."""


class Family(NamedTuple):
    """The state of the uplinks in one IP version; times of CLOCK_MONOTONIC.

    ``as_of_ns``: time of the state; ``since_ns``: since when at least one
    uplink has worked without interruption, None if none works.
    """

    as_of_ns: int
    since_ns: int | None


def encode(families: Mapping[int, Family]) -> bytes:
    """Return the content of the file, from states of families 4 and 6."""
    return json.dumps({'version': VERSION, 'families': {
        str(family): state._asdict()
        for family, state in sorted(families.items())}}).encode()


def decode(text: str | bytes) -> dict[int, Family]:
    """Parse the content of the file.

    :raises UplinksFileError: it is malformed, or has another version.
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
    """Replace the file without syncing it: it is useless after a crash.

    :raises OSError: it cannot be written.
    """
    path = os.path.join(directory, FILE_NAME)
    # A fixed name: there is one writer, and a killed one leaves one file.
    temporary = f'{path}.new'
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    # The health checker reads it through the file's group.
    with os.fdopen(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY,
                           0o640), 'wb') as file:
        file.write(encode(families))
    os.replace(temporary, path)

