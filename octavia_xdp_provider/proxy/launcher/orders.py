# SPDX-License-Identifier: Apache-2.0
"""What the agent wants to run, read from its directory.

The agent is less privileged than the launcher. So links are not followed,
everything is bounded, and whatever is unfit concerns its load balancer alone.
"""

from collections.abc import Iterable
import contextlib
import hashlib
import json
import os
import re
from typing import Any
from typing import NamedTuple

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import proxy_launch
from octavia_xdp_provider.process import foreign_file
from octavia_xdp_provider.proxy.launcher import tokens

LOAD_BALANCERS_MAX = 8192
_LAUNCH_MAX = 4 << 20
_CONFIGURATION_MAX = 16 << 20
_CERTIFICATES_MAX = 4096
_CERTIFICATE_MAX = 1 << 20
_UUID = re.compile(proxy_launch.UUID)
_FILE_NAME = re.compile(r'[0-9A-Za-z_-][0-9A-Za-z._-]{0,127}')


class Order(NamedTuple):
    """What is wanted of one load balancer.

    :ivar launch: None if it cannot be used.
    :ivar problem: why it cannot.
    :ivar hash: of the configuration that it names, if it can be read.
    """

    launch: proxy_launch.Launch | None
    problem: str | None = None
    hash: str | None = None


class NotWhole(Exception):
    """Files do not fit each other, perhaps because one is being written."""


def is_identity(name: str) -> bool:
    return bool(_UUID.fullmatch(name))


def identities(wanted: str) -> set[str]:
    """Return the ids of load balancers that are wanted.

    :raises OSError: the directory cannot be read.
    """
    directory = foreign_file.open_directory(wanted)
    try:
        with os.scandir(directory) as entries:
            names = sorted(entry.name for entry in entries
                           if is_identity(entry.name)
                           and entry.is_dir(follow_symlinks=False))
    finally:
        os.close(directory)
    return set(names[:LOAD_BALANCERS_MAX])


def read(wanted: str, identity: str, numbers: range,
         token_networks: Iterable[Any] = ()) -> Order | None:
    """Return what is wanted of a load balancer, None if it is not wanted.

    :param numbers: uids that may be given to load balancers.
    :param token_networks: networks of tokens.
    """
    try:
        directory = _directory(wanted, identity)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Order(None, f'{identity}: {error.strerror}')
    try:
        text, _ = foreign_file.read(proxy_launch.LAUNCH, _LAUNCH_MAX + 1,
                                    directory)
        return _check(text, numbers, token_networks)
    except FileNotFoundError:
        return Order(None, f'{proxy_launch.LAUNCH} is not there yet')
    except OSError as error:
        return Order(None, f'{proxy_launch.LAUNCH}: {error.strerror}')
    finally:
        os.close(directory)


def _check(text: bytes, numbers: range, token_networks: Iterable[Any]
           ) -> Order:
    if len(text) > _LAUNCH_MAX:
        return Order(None, f'{proxy_launch.LAUNCH} has more than '
                     f'{_LAUNCH_MAX} bytes')
    try:
        launch = json.loads(text)
        proxy_launch.LAUNCH_SHAPE.check(launch)
    except errors.Refused as error:
        return Order(None, f'{proxy_launch.LAUNCH}: {error.option}: '
                     f'{error.why}: {error.instead}')
    except (ValueError, RecursionError) as error:
        return Order(None, f'{proxy_launch.LAUNCH} is no JSON: {error}')
    problem = _problem(launch, numbers, token_networks)
    return Order(None if problem else launch, problem,
                 launch['configuration_hash'])


def _problem(launch: proxy_launch.Launch, numbers: range,
             token_networks: Iterable[Any]) -> str | None:
    if launch['number'] not in numbers:
        return (f'number {launch["number"]} is not of [proxy] number_min to '
                f'number_max, {numbers[0]} to {numbers[-1]}')
    for name, key in (('name', lambda item: item['name']),
                      ('address and port', lambda item: (item['address'],
                                                         item['port']))):
        keys = [key(item) for item in launch['sockets']]
        if len(set(keys)) < len(keys):
            return f'two sockets have the same {name}'
    return tokens.problem(launch, token_networks)


def configuration(wanted: str, identity: str, expected: str) -> bytes:
    """Return the configuration of this hash.

    :raises NotWhole: the file has another one.
    :raises OSError: it cannot be read.
    """
    directory = _directory(wanted, identity)
    try:
        text, _ = foreign_file.read(proxy_launch.CONFIGURATION,
                                    _CONFIGURATION_MAX, directory)
    finally:
        os.close(directory)
    if digest(text) != expected:
        raise NotWhole(f'{proxy_launch.CONFIGURATION} does not have the hash '
                       f'of {proxy_launch.LAUNCH}')
    return text


def certificates(secrets: str, identity: str, name: str) -> dict[str, bytes]:
    """Return the contents of the files in a directory, by name.

    :raises OSError: the directory, or a file in it, cannot be read.
    """
    with contextlib.ExitStack() as stack:
        parent = _directory(secrets, identity)
        stack.callback(os.close, parent)
        directory = foreign_file.open_directory(name, parent)
        stack.callback(os.close, directory)
        with os.scandir(directory) as entries:
            names = sorted(entry.name for entry in entries)
        if len(names) > _CERTIFICATES_MAX or not all(
                map(_FILE_NAME.fullmatch, names)):
            raise OSError(0, 'it has too many files, or strange names of '
                          'files', name)
        return {file: foreign_file.read(file, _CERTIFICATE_MAX, directory)[0]
                for file in names}


def digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _directory(top: str, identity: str) -> int:
    parent = foreign_file.open_directory(top)
    try:
        return foreign_file.open_directory(identity, parent)
    finally:
        os.close(parent)
