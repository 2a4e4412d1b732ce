# SPDX-License-Identifier: Apache-2.0
"""What a test bed offers, whoever provides it.

Scenarios, traffic and software under test know a bed by this alone: that it is
of namespaces, guests or real machines makes no difference to them.
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

    :param name: as the host's kernel has it.
    :param link: of the declaration.
    :param addresses: with their prefix lengths, as in '192.0.2.1/24'.
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
        """Its exit status, None while it runs."""

    def wait(self, timeout: float) -> int:
        """:raises subprocess.TimeoutExpired: it still runs."""

    def write(self, text: str) -> None:
        """Into its standard input, at once."""

    def line(self, timeout: float) -> str:
        """The next line of its standard output, without its end.

        :raises EOFError: it has none any more.
        :raises subprocess.TimeoutExpired: none came.
        """

    def stop(self, timeout: float = 5) -> int:
        """TERM, and KILL after the timeout; its exit status."""


class Host(Protocol):
    """A machine of the bed, or what stands for one.

    :ivar interfaces: by the name of their link.
    :ivar folder: on the host, its own of this bed; goes with the bed.
    :ivar patience: seconds of this machine that one of the host's may take:
        who waits for it by this machine's clock waits so many times as long.
    """

    name: str
    role: str
    interfaces: Mapping[str, Interface]
    folder: pathlib.PurePosixPath
    patience: float

    def run(self, arguments: Sequence[str], *, check: bool = True,
            timeout: float = 60, stdin: str | None = None,
            ) -> subprocess.CompletedProcess[str]:
        """Run to its end, as root in the host's network.

        :raises BenchError: it failed and `check` is set, with what it printed;
            or it took longer than the timeout (it is killed).
        """

    def start(self, arguments: Sequence[str], *, log: str) -> Process:
        """Start; it ends with the bed at the latest.

        :param log: name of the file for its standard error, below `folder`.
        """

    def put(self, source: pathlib.Path, name: str) -> pathlib.PurePosixPath:
        """Copy a file below `folder`; where it is then."""

    def read(self, path: pathlib.PurePosixPath) -> bytes:
        """A file of the host."""


class Bed(Protocol):
    """Hosts that are up, with their links.

    :ivar machines: one host of each machine with a kernel of its own, by the
        machine's name.
    :ivar counts_instructions: its clock counts instructions of emulated
        processors, so that other load changes no figure, and that its seconds
        are not those of this machine.
    """

    name: str
    hosts: Mapping[str, Host]
    machines: Mapping[str, Host]
    counts_instructions: bool

    def by_role(self, role: str) -> list[Host]:
        """In the order of the declaration."""

    def fingerprint(self) -> dict:
        """What of the bed can change a result, for fingerprint.py: JSON."""


@runtime_checkable
class Provisioned(Protocol):
    """A bed whose machines have had the product installed: there that is under
    test, and no checkout.

    :ivar installed: packages of the product, by host: version and a digest of
        their files.
    """

    installed: Mapping[str, Mapping[str, str]]


class Provider(Protocol):
    """Makes beds of one kind."""

    name: str

    def build(self, declaration, run: str,
              ) -> contextlib.AbstractContextManager[Bed]:
        """Make a bed, and take it down when the context ends.

        :param declaration: beds.declaration.Bed.
        :param run: unique; what is made has it in its names, so that what a
            killed run left can be told from another's, and removed.
        :raises BenchError: it cannot be made; nothing is left.
        """
