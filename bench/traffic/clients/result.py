# SPDX-License-Identifier: Apache-2.0
"""Results of plain clients."""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from bench import errors
from bench.beds import interface

# A failure common to clients of HTTP.
REFUSED = 'answers of status 400 or more'
PERCENTILES = ('p50', 'p90', 'p99', 'max')


@dataclasses.dataclass
class Result:
    """The result of one run of a client.

    :ivar done: requests with any answer, or bytes of a transfer.
    :ivar latency_s: latency of requests by percentile; empty for transfers.
    :ivar failures: numbers of failures that occurred, by kind.
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
        """Why the figures are in doubt."""
        if not self.failures:
            return []
        return ['failures: ' + ', '.join(
            f'{count} {name}' for name, count in sorted(
                self.failures.items()))]


@dataclasses.dataclass(frozen=True)
class Client:
    """A program on a generator.

    :param keep_alive: for requests; otherwise each has its own connection.
    :cvar unit: unit of the rate: requests/s or bytes/s.
    """

    connections: int = 16
    keep_alive: bool = True
    unit = 'requests/s'

    def prepare(self, host: interface.Host) -> None:
        """:raises BenchError: the host does not have the program."""
        raise NotImplementedError

    def command(self, host: interface.Host, address: str, port: int,
                seconds: float) -> list[str]:
        """Return a command that ends by itself after some seconds."""
        raise NotImplementedError

    def parse(self, host: interface.Host, output: str) -> Result:
        """:raises BenchError: the output is malformed, or nothing was
            answered."""
        raise NotImplementedError


def together(results: Sequence[Result]) -> Result:
    """Merge results of concurrent clients: sums, and the worst latency of each
    percentile, as times of single requests are not kept."""
    failures: dict[str, int] = {}
    for result in results:
        for name, count in result.failures.items():
            failures[name] = failures.get(name, 0) + count
    return Result(
        max(result.seconds for result in results),
        sum(result.done for result in results),
        {name: max(result.latency_s[name] for result in results)
         for name in results[0].latency_s}, failures)


def some(counts: Mapping[str, int]) -> dict[str, int]:
    """Return counts without zeroes."""
    return {name: count for name, count in counts.items() if count}


def answered(program: str, made: Result) -> Result:
    """:raises BenchError: nothing was answered."""
    if made.done <= 0 or made.seconds <= 0:
        raise errors.BenchError(
            f'{program}: nothing was answered'
            + (f'; {made.marks[0]}' if made.marks else ''))
    return made


def need(host: interface.Host, program: str, package: str) -> None:
    """:raises BenchError: the host does not have the program."""
    lookup = host.run(['sh', '-c', 'command -v "$1"', 'sh', program],
                      check=False)
    if lookup.returncode:
        raise errors.BenchError(f'{host.name} has no {program}: install the '
                                f'Debian package {package}')
