# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-manage top: live figures of the fleet."""

import argparse
import contextlib
import curses
import json
import time

from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import fleet
from octavia_xdp_provider.process import arguments as argument_types
from octavia_xdp_provider.process import screen

_KEYS = {ord(order[0]): order for order in fleet.ORDERS}
_SUBJECT_KEYS = {ord('N'): fleet.NODES, ord('L'): fleet.LOAD_BALANCERS}
_HELP = ('N L: nodes, load balancers   b f d a n: sort by bits, flows, drops, '
         'active flows, name   q: end')


def number(text: str) -> int:
    """Convert an argument to an integer of 0 or more."""
    value = int(text)
    if value < 0:
        raise ValueError
    return value


class Top(command.Command):
    """Show all nodes, or the load balancers with the most traffic, live.

    Rates are known after two reports of a node, which it sends every ten
    seconds. With --batch it writes text or JSON, for pipes.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('subject', nargs='?', choices=fleet.SUBJECTS,
                            default=fleet.NODES,
                            help='what to show (%(default)s)')
        parser.add_argument('--sort', choices=fleet.ORDERS, default='bits',
                            help='sort by this column (%(default)s)')
        parser.add_argument('--interval', type=argument_types.seconds(3600),
                            default=2.0, metavar='SECONDS',
                            help='time between two views (%(default)s)')
        parser.add_argument('--batch', action='store_true',
                            help='write text, for pipes')
        parser.add_argument('-n', '--count', type=number, default=0,
                            help='with --batch: number of views; 0: no end')
        parser.add_argument('--rows', type=number, default=20,
                            help='with --batch: maximal number of rows '
                                 '(%(default)s)')
        parser.add_argument('--json', action='store_true',
                            help='with --batch: write each view as a line of '
                                 'JSON')
        return parser

    def take_action(self, arguments: argparse.Namespace) -> None:
        if not arguments.batch and (arguments.count or arguments.json):
            raise command.CommandError('-n and --json need --batch')
        views = fleet.Fleet(
            self.store(), self.conf.placement, time.monotonic)
        if arguments.batch:
            with contextlib.suppress(KeyboardInterrupt):
                self._write_batch(views, arguments)
            return
        problem = screen.lacking()
        if problem:
            raise command.CommandError(f'{problem}; --batch writes to pipes')
        curses.wrapper(lambda window: _Screen(
            window, views, arguments).run())

    def _write_batch(self, views: fleet.Fleet, arguments: argparse.Namespace
                     ) -> None:
        written = 0
        while not arguments.count or written < arguments.count:
            if written:
                time.sleep(arguments.interval)
            view = views.view(arguments.subject, arguments.sort,
                              arguments.rows)
            text = json.dumps(view) if arguments.json else '\n'.join([
                *fleet.head(view), fleet.headers(arguments.subject),
                *(fleet.line(arguments.subject, row) for row in view['rows']),
                ''])
            self.app.stdout.write(f'{text}\n')
            self.app.stdout.flush()
            written += 1


class _Screen(screen.Screen):
    """The view on a terminal."""

    def __init__(self, window: 'curses.window', views: fleet.Fleet,
                 arguments: argparse.Namespace) -> None:
        super().__init__(window, arguments.interval)
        self._views = views
        self._subject: str = arguments.subject
        self._order: str = arguments.sort
        self._view: fleet.Row | None = None

    def look(self) -> None:
        # Two lines of totals, the headers and the help are no rows.
        rows_max = max(self.window.getmaxyx()[0] - 4, 1)
        self._view = self._views.view(self._subject, self._order, rows_max)

    def draw(self) -> None:
        if self._view is None:
            self.put(0, 'looking …')
            return
        lines = fleet.head(self._view)
        for number, text in enumerate(lines):
            self.put(number, text)
        self.put(len(lines), fleet.headers(self._subject), curses.A_REVERSE)
        for number, row in enumerate(self._view['rows'], len(lines) + 1):
            self.put(number, fleet.line(self._subject, row))
        self.put(-1, _HELP, curses.A_DIM)

    def press(self, key: int) -> bool:
        if key in (ord('q'), 27):
            return True
        if key in _KEYS:
            self._order = _KEYS[key]
        elif key in _SUBJECT_KEYS:
            self._subject = _SUBJECT_KEYS[key]
        else:
            return False
        self.look()
        return False
