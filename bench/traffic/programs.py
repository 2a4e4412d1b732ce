# SPDX-License-Identifier: Apache-2.0
"""Runs octavia-xdp-traffic on a host, controlled by lines."""

import contextlib
import json
import pathlib
import subprocess
import tempfile

from bench import errors
from bench.beds import interface

PROGRAM = (pathlib.Path(__file__).parents[2] /
           'build/bench/bin/octavia-xdp-traffic')
SECONDS = 60  # timeout to load programs or write results on a busy machine


def install(host: interface.Host) -> str:
    """Copy the program to the host; return its path there.

    :raises BenchError: it is not built.
    """
    if not PROGRAM.exists():
        raise errors.BenchError(
            f'{PROGRAM} is not built; run "make bench-traffic"')
    path = str(host.put(PROGRAM, PROGRAM.name))
    host.run(['chmod', '755', path])
    return path


def give(host: interface.Host, data: bytes, name: str) -> str:
    """Create a file on the host; return its path there."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return str(host.put(pathlib.Path(file.name), name))


class Program:
    """A running command of the program on a host.

    :param log: file name for its standard error.
    """

    def __init__(self, host: interface.Host, arguments: list[str], log: str):
        self.host = host
        self._what = f'{host.name}: octavia-xdp-traffic {arguments[1]}'
        self._process = host.start(arguments, log=log)

    def hear(self, timeout: float = SECONDS) -> dict:
        """Return the next line of its output.

        :raises BenchError: it failed, ended or printed nothing in time.
        """
        try:
            answer = json.loads(self._process.line(timeout))
        except EOFError:
            raise errors.BenchError(
                f'{self._what} ended without a word, with '
                f'{self._status()}') from None
        except subprocess.TimeoutExpired:
            raise errors.BenchError(
                f'{self._what} says nothing for {timeout:.0f} seconds'
            ) from None
        if 'error' in answer:
            raise errors.BenchError(f'{self._what}: {answer["error"]}')
        return answer

    def _status(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(1)
        return None

    def tell(self, line: str) -> None:
        """Write a line to it."""
        self._process.write(line + '\n')

    def ask(self, line: str, timeout: float = SECONDS) -> dict:
        """Write a line and return the answer."""
        self.tell(line)
        return self.hear(timeout)

    def close(self) -> None:
        """End it, which detaches its programs."""
        self._process.stop()
