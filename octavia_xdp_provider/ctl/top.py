# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-ctl top: live rates of services, members and drops."""

import argparse
from collections.abc import Iterator
from collections.abc import Sequence
import curses
import errno
import sys
import time

from octavia_xdp_provider.ctl import output
from octavia_xdp_provider.ctl import processes
from octavia_xdp_provider.ctl import rates
from octavia_xdp_provider.node import inspection
from octavia_xdp_provider.node import types
from octavia_xdp_provider.node.datapath import DatapathError
from octavia_xdp_provider.process import screen

_OUTCOMES = 4
_KEYS = {ord('p'): 'packets', ord('b'): 'bytes', ord('f'): 'flows'}
_HELP = 'p b f: sort by packets, bytes, flows   Enter: members   q: end'


def _speed(row: rates.Row) -> tuple[str, str, str]:
    return (output.short(row.packets), output.short(8 * row.bytes),
            output.short(row.flows))


def head(view: rates.View, order: str, silent: Sequence[str] = ()
         ) -> list[str]:
    """Return the first lines: processes that do not work, totals, and
    outcomes of packets that are not forwarded."""
    packets, bits, flows = _speed(view.total)
    lines = [*silent,
             f'{view.services} services, {packets} packets/s, {bits}bit/s, '
             f'{flows} new flows/s, by {order}']
    for name, rate, total in view.outcomes[:_OUTCOMES]:
        lines.append(f'{name.lower():22}{output.short(rate.packets):>8}/s '
                     f'{output.short(8 * rate.bytes):>8}bit/s '
                     f'{total.packets:>16} in all')
    return lines


HEADERS = (f'{"SERVICE":40}{"PACKETS/S":>10}{"BIT/S":>8}{"FLOWS/S":>9}'
           f'{"MEMBERS":>10}')
MEMBER_HEADERS = (f'{"MEMBER":40}{"PACKETS/S":>10}{"BIT/S":>8}'
                  f'{"FLOWS/S":>9}  STATE')


def service_line(row: rates.Row) -> str:
    packets, bits, flows = _speed(row)
    members = f'{row.service.enabled}/{row.service.members}'
    address, protocol, port = row.name
    name = (f'{protocol} [{address}]:{port}' if ':' in address
            else f'{protocol} {address}:{port}')
    return f'{name:40}{packets:>10}{bits:>8}{flows:>9}{members:>10}'


def member_line(row: rates.Row) -> str:
    packets, bits, flows = _speed(row)
    return (f'{row.name:40}{packets:>10}{bits:>8}{flows:>9}  '
            f'{output.member_state(row.service)}, weight {row.service.weight}')


def _batch(node: inspection.Inspection, arguments: argparse.Namespace) -> int:
    """Write ``count`` views for pipes, each as text or as a line of JSON."""
    meter = rates.Meter(node)
    files = processes.files_of(arguments)
    done = 0
    while not arguments.count or done < arguments.count:
        time.sleep(arguments.interval)
        view = meter.view(arguments.sort, arguments.rows)
        silent = processes.problems(files)
        if arguments.json:
            print(output.line({
                'seconds': view.seconds, 'services': view.services,
                'processes': silent,
                'rows': [output.key(row.name) | {
                    'packets_per_second': row.packets,
                    'bytes_per_second': row.bytes,
                    'flows_per_second': row.flows} for row in view.rows],
                'outcomes': [{'outcome': name.lower(),
                              'packets_per_second': rate.packets,
                              'bytes_per_second': rate.bytes,
                              'packets': total.packets, 'bytes': total.bytes}
                             for name, rate, total in view.outcomes]}))
        else:
            print('\n'.join([*head(view, arguments.sort, silent), HEADERS,
                             *map(service_line, view.rows), '']))
        sys.stdout.flush()
        done += 1
    return 0


class Screen(screen.Screen):
    """The terminal."""

    def __init__(self, window: 'curses.window',
                 node: inspection.Inspection, arguments: argparse.Namespace
                 ) -> None:
        super().__init__(window, arguments.interval)
        self._order: str = arguments.sort
        self._meter = rates.Meter(node)
        self._files = processes.files_of(arguments)
        self._silent: list[str] = []
        self._view: rates.View | None = None
        self._selected = 0
        # Whose members are shown.
        self._service: types.Key | None = None
        self._members: list[rates.Row] = []

    def look(self) -> None:
        room = max(self.window.getmaxyx()[0] - _OUTCOMES - 4, 1)
        self._view = self._meter.view(self._order, room)
        self._silent = processes.problems(self._files)
        self._look_at_members()

    def _look_at_members(self) -> None:
        if self._service is None:
            return
        try:
            self._members = self._meter.members(self._service)
        except DatapathError as error:
            if error.errno != errno.ENOENT:
                raise
            self._service = None  # it was removed

    def press(self, key: int) -> bool:
        if key == ord('q') or (key == 27 and self._service is None):
            return True
        rows = self._view.rows if self._view else []
        if key in _KEYS:
            self._order = _KEYS[key]
            if self._view:
                position = rates.ORDERS.index(self._order) + 1
                rows.sort(key=lambda row: -row[position])
        elif key == curses.KEY_DOWN:
            self._selected = min(self._selected + 1, max(len(rows) - 1, 0))
        elif key == curses.KEY_UP:
            self._selected = max(self._selected - 1, 0)
        elif key in (curses.KEY_ENTER, 10, 13) and rows:
            self._service = None if self._service else rows[
                min(self._selected, len(rows) - 1)].name
            self._look_at_members()
        elif key in (27, curses.KEY_BACKSPACE, 127):
            self._service = None
        return False

    def draw(self) -> None:
        if self._view is None:
            self.put(0, 'measuring …')
            return
        line = 0
        for text in head(self._view, self._order, self._silent):
            self.put(line, text)
            line += 1
        self.put(line, HEADERS if self._service is None
                 else MEMBER_HEADERS, curses.A_REVERSE)
        for position, (text, chosen) in enumerate(self._lines()):
            self.put(line + 1 + position, text,
                     curses.A_BOLD if chosen else curses.A_NORMAL)
        self.put(-1, _HELP, curses.A_DIM)

    def _lines(self) -> Iterator[tuple[str, bool]]:
        if self._service is None:
            for position, row in enumerate(
                    self._view.rows if self._view else ()):
                yield service_line(row), position == self._selected
            return
        position = rates.ORDERS.index(self._order) + 1
        for row in sorted(self._members, key=lambda row: -row[position]):
            yield member_line(row), False


def run(node: inspection.Inspection, arguments: argparse.Namespace) -> int:
    if arguments.batch:
        return _batch(node, arguments)
    problem = screen.lacking()
    if problem:
        print(f'octavia-xdp-ctl: {problem}; --batch writes to pipes',
              file=sys.stderr)
        return 2
    curses.wrapper(lambda window: Screen(window, node, arguments).run())
    return 0
