# SPDX-License-Identifier: Apache-2.0
"""What a plain client felt."""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
from typing import Protocol

from bench import errors
from bench.beds import interface

# Failures that clients of HTTP have in common.
REFUSED = 'answers of status 400 or more'
PERCENTILES = ('p50', 'p90', 'p99', 'max')


@dataclasses.dataclass
class Result:
    """Of one run of one client.

    :ivar done: requests with an answer, whatever it says; bytes of a transfer.
    :ivar latency_s: by percentile, of requests; empty for transfers.
    :ivar failures: what went wrong, how often; only what did.
    """

    seconds: float
    done: int
    latency_s: dict[str, float] = dataclasses.field(default_factory=dict)
    failures: dict[str, int] = dataclasses.field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Requests/s, or bytes/s."""
        return self.done / self.seconds

    @property
    def marks(self) -> list[str]:
        """Why the figures are not what they seem."""
        if not self.failures:
            return []
        return ['failures: ' + ', '.join(
            f'{count} {name}' for name, count in sorted(
                self.failures.items()))]


class Client(Protocol):
    """A program on a generator.

    :ivar name: as scenarios call it.
    :ivar unit: of the rate: requests/s or bytes/s.
    """

    name: str
    unit: str

    def prepare(self, host: interface.Host) -> None:
        """:raises BenchError: the host does not have the program."""

    def command(self, host: interface.Host, address: str, port: int,
                seconds: float) -> list[str]:
        """Ends by itself after so many seconds of requests."""

    def parse(self, host: interface.Host, output: str) -> Result:
        """:raises BenchError: it printed something else, or nothing was
            answered."""


def together(results: Sequence[Result]) -> Result:
    """Of clients that ran at the same time: sums, and the worst latency of
    each percentile, as times of single requests are not kept."""
    failures: dict[str, int] = {}
    for one in results:
        for name, count in one.failures.items():
            failures[name] = failures.get(name, 0) + count
    return Result(
        max(one.seconds for one in results),
        sum(one.done for one in results),
        {name: max(one.latency_s[name] for one in results)
         for name in results[0].latency_s}, failures)


def some(counts: Mapping[str, int]) -> dict[str, int]:
    """Without those that did not occur."""
    return {name: count for name, count in counts.items() if count}


def answered(program: str, made: Result) -> Result:
    """:raises BenchError: nothing was done."""
    if made.done <= 0 or made.seconds <= 0:
        raise errors.BenchError(
            f'{program}: nothing was answered'
            + (f'; {made.marks[0]}' if made.marks else ''))
    return made


def need(host: interface.Host, program: str, package: str) -> None:
    """:raises BenchError: the host does not have the program."""
    found = host.run(['sh', '-c', 'command -v "$1"', 'sh', program],
                     check=False)
    if found.returncode:
        raise errors.BenchError(f'{host.name} has no {program}: install the '
                                f'Debian package {package}')
