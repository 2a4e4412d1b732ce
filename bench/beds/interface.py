# SPDX-License-Identifier: Apache-2.0
"""The interface of test beds, whichever provider builds them.

Scenarios, traffic and software under test use nothing else of a bed, so they
work the same on namespaces, guests and real machines.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
import pathlib
import subprocess
from typing import Protocol
from typing import runtime_checkable

GENERATOR, LOAD_BALANCER, ROUTER, MEMBER, SINK = ROLES = (
    'generator', 'load_balancer', 'router', 'member', 'sink')


@dataclasses.dataclass(frozen=True)
class Interface:
    """An end of a link, on its host.

    :param name: name in the host's kernel.
    :param link: name of the declared link.
    :param addresses: with prefix lengths, as in '192.0.2.1/24'.
    :param peers: names of the hosts at the link's other ends.
    """

    name: str
    link: str
    mac: str
    mtu: int
    addresses: tuple[str, ...]
    peers: tuple[str, ...]


class Process(Protocol):
    """A program that runs on a host."""

    def poll(self) -> int | None:
        """Return its exit status, None while it runs."""

    def wait(self, timeout: float) -> int:
        """:raises subprocess.TimeoutExpired: it is still running."""

    def write(self, text: str) -> None:
        """Write to its standard input and flush."""

    def line(self, timeout: float) -> str:
        """Return the next line of its standard output, without line end.

        :raises EOFError: it has closed its output.
        :raises subprocess.TimeoutExpired: no line came.
        """

    def stop(self, timeout: float = 5) -> int:
        """Send TERM, KILL after the timeout; return its exit status."""


class Host(Protocol):
    """A machine of the bed, real or virtual.

    :ivar interfaces: by the name of their link.
    :ivar folder: a folder on the host that exists as long as the bed.
    :ivar patience: seconds of this machine that a second of the host may take;
        multiply timeouts by this machine's clock by it.
    """

    name: str
    role: str
    interfaces: Mapping[str, Interface]
    folder: pathlib.PurePosixPath
    patience: float

    def run(self, arguments: Sequence[str], *, check: bool = True,
            timeout: float = 60, stdin: str | None = None,
            ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, as root in the host's network.

        :raises BenchError: it failed and `check` is set, with its output; or
            it exceeded the timeout and was killed.
        """

    def start(self, arguments: Sequence[str], *, log: str) -> Process:
        """Start a program, which ends with the bed at the latest.

        :param log: file name for its standard error, below `folder`.
        """

    def put(self, source: pathlib.Path, name: str) -> pathlib.PurePosixPath:
        """Copy a file below `folder`; return its path on the host."""

    def read(self, path: pathlib.PurePosixPath) -> bytes:
        """Return the contents of a file of the host."""


class Bed(Protocol):
    """Hosts that are up, with their links.

    :ivar machines: one host on each machine with its own kernel, by the
        machine's name.
    :ivar counts_instructions: its clock counts instructions of emulated
        processors; figures are independent of other load, and its seconds
        differ from those of this machine.
    """

    name: str
    hosts: Mapping[str, Host]
    machines: Mapping[str, Host]
    counts_instructions: bool

    def by_role(self, role: str) -> list[Host]:
        """Return hosts with a role, in the order of the declaration."""

    def fingerprint(self) -> dict:
        """Return what can change results, as JSON, for fingerprint.py."""


@runtime_checkable
class Provisioned(Protocol):
    """A bed of machines with the product installed, which is under test
    instead of this checkout.

    :ivar installed: by host, the product's packages: version and a digest of
        their files.
    """

    installed: Mapping[str, Mapping[str, str]]


class Provider(Protocol):
    """Builds beds of one kind."""

    name: str

    def build(self, declaration, run: str,
              ) -> contextlib.AbstractContextManager[Bed]:
        """Build a bed, and take it down when the context ends.

        :param declaration: beds.declaration.Bed.
        :param run: unique name that is part of all names that are made, so
            that leftovers of a killed run can be recognized and removed.
        :raises BenchError: it cannot be built; nothing is left behind.
        """
