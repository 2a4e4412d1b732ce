# SPDX-License-Identifier: Apache-2.0
"""The sinks of a bed: they count expected packets and report results."""

from collections.abc import Sequence
import contextlib

from bench import errors
from bench.beds import interface
from bench.traffic import programs
from bench.traffic import results
from bench.traffic import streams

QUIET_SECONDS = 0.3  # without a packet, after which none is in flight
QUIET_MAX = 10
LOOK_SECONDS = 0.05


class Sinks:
    """A program on each member and sink, which count until the stack closes.

    :ivar generic: names of hosts with an interface without native XDP.
    :raises BenchError: there are no hosts, or a program cannot be attached.
    """

    def __init__(self, hosts: Sequence[interface.Host],
                 stack: contextlib.ExitStack):
        if not hosts:
            raise errors.BenchError(
                'nobody counts what arrives: the bed has neither members nor '
                'sinks')
        self.generic: list[str] = []
        self._programs = {host.name: self._start(host, stack)
                          for host in hosts}
        for name, program in self._programs.items():
            if not program.hear()['native']:
                self.generic.append(name)

    @staticmethod
    def _start(host: interface.Host, stack: contextlib.ExitStack,
               ) -> programs.Program:
        devices = [each.name for each in host.interfaces.values()
                   if each.peers]
        program = programs.Program(
            host, [programs.install(host), 'receive', *devices],
            'traffic-receive.log')
        stack.callback(program.close)
        return program

    def expect(self, expected: Sequence[streams.Stream]) -> dict[str, dict]:
        """Count these streams from zero; return clocks by name of the host."""
        data = streams.receive_file(expected)
        for program in self._programs.values():
            path = programs.give(program.host, data, 'traffic-expected')
            program.tell(f'expect {path}')
        return {name: program.hear()
                for name, program in self._programs.items()}

    def _total(self) -> int:
        for program in self._programs.values():
            program.tell('count')
        return sum(sum(program.hear().values())
                   for program in self._programs.values())

    def wait_until_quiet(self) -> bool:
        """Wait until no packet of the streams arrives; return False if they
        kept arriving."""
        same, last = 0, self._total()
        for _ in range(_looks(QUIET_MAX)):
            self._pause()
            total = self._total()
            same = same + 1 if total == last else 0
            last = total
            if same >= _looks(QUIET_SECONDS):
                return True
        return False

    def _pause(self):
        """Wait by the clock of a sink, which may be another one."""
        host = next(iter(self._programs.values())).host
        host.run(['sleep', str(LOOK_SECONDS)])

    def collect(self) -> tuple[dict[str, results.SinkResult],
                               dict[str, dict]]:
        """Return results and clocks by name of the host."""
        received, clocks = {}, {}
        for name, program in self._programs.items():
            path = program.host.folder / 'traffic-received'
            clocks[name] = program.ask(f'write {path}')
            received[name] = results.received(program.host.read(path), name)
        return received, clocks


def _looks(seconds: float) -> int:
    return round(seconds / LOOK_SECONDS)
