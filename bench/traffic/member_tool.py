# SPDX-License-Identifier: Apache-2.0
"""Finds octavia-xdp-member on a host."""

import pathlib

from bench import errors
from bench.beds import interface

NAME = 'octavia-xdp-member'
BUILT = pathlib.Path(__file__).parents[2] / 'datapath/build' / NAME


def find(host: interface.Host) -> str:
    """Return the command: the checkout's if the host sees its files, or the
    installed one.

    :raises BenchError: there is neither.
    """
    command = _found(host, str(BUILT), NAME)
    if command is None:
        raise errors.BenchError(
            f'{host.name} has no {NAME}: run "make -C datapath" in the '
            'checkout if the host sees its files, or install the package '
            f'{NAME} on the host')
    return command


def find_or_copy(host: interface.Host) -> str:
    """Like find(), but copy the checkout's if necessary, for uses where it is
    not under test.

    :raises BenchError: it is neither on the host nor built here.
    """
    command = _found(host, str(BUILT), NAME, str(host.folder / NAME))
    if command is not None:
        return command
    if not BUILT.exists():
        raise errors.BenchError(
            f'{host.name} has no {NAME}, and none is built here that could '
            'be copied: run "make -C datapath" in the checkout')
    path = str(host.put(BUILT, NAME))
    host.run(['chmod', '755', path])
    return path


def _found(host, *commands):
    for command in commands:
        if host.run(['sh', '-c', 'command -v "$1"', 'sh', command],
                    check=False).returncode == 0:
            return command
    return None
