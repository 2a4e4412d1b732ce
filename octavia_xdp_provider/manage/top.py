# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-manage top: the fleet, again and again."""

import contextlib
import curses
import json
import time

from octavia_xdp_provider.common import arguments as argument_types
from octavia_xdp_provider.common import screen
from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import fleet

_KEYS = {ord(order[0]): order for order in fleet.ORDERS}
_SUBJECT_KEYS = {ord('N'): fleet.NODES, ord('L'): fleet.LOAD_BALANCERS}
_HELP = ('N L: nodes, load balancers   b f d a n: sort by bits, flows, drops, '
         'active flows, name   q: end')


def number(text):
    """A type of arguments: 0 or more."""
    value = int(text)
    if value < 0:
        raise ValueError
    return value


class Top(command.Command):
    """Show all nodes, or the load balancers with the most traffic, live.

    Rates come from what nodes report every ten seconds: the first ones are
    there after two reports. With --batch, text or JSON for pipes.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('subject', nargs='?', choices=fleet.SUBJECTS,
                            default=fleet.NODES,
                            help='what is shown (%(default)s)')
        parser.add_argument('--sort', choices=fleet.ORDERS, default='bits',
                            help='what comes first (%(default)s)')
        parser.add_argument('--interval', type=argument_types.seconds(3600),
                            default=2.0, metavar='SECONDS',
                            help='between two looks (%(default)s)')
        parser.add_argument('--batch', action='store_true',
                            help='write text, for pipes')
        parser.add_argument('-n', '--count', type=number, default=0,
                            help='with --batch: number of views; 0: no end')
        parser.add_argument('--rows', type=number, default=20,
                            help='with --batch: rows at most (%(default)s)')
        parser.add_argument('--json', action='store_true',
                            help='with --batch: a line of JSON for each view')
        return parser

    def take_action(self, arguments):
        if not arguments.batch and (arguments.count or arguments.json):
            raise command.NotDone('-n and --json need --batch')
        looking = fleet.Fleet(
            self.store(), self.conf.placement.node_timeout, time.monotonic)
        if arguments.batch:
            with contextlib.suppress(KeyboardInterrupt):
                self._batch(looking, arguments)
            return
        problem = screen.lacking()
        if problem:
            raise command.NotDone(f'{problem}; --batch writes to pipes')
        curses.wrapper(lambda window: _Screen(
            window, looking, arguments).run())

    def _batch(self, looking, arguments):
        done = 0
        while not arguments.count or done < arguments.count:
            if done:
                time.sleep(arguments.interval)
            view = looking.view(arguments.subject, arguments.sort,
                                arguments.rows)
            text = json.dumps(view) if arguments.json else '\n'.join([
                *fleet.head(view), fleet.headers(arguments.subject),
                *(fleet.line(arguments.subject, row) for row in view['rows']),
                ''])
            self.app.stdout.write(f'{text}\n')
            self.app.stdout.flush()
            done += 1


class _Screen(screen.Screen):
    """The terminal."""

    def __init__(self, window, looking, arguments):
        super().__init__(window, arguments.interval)
        self._looking = looking
        self._subject = arguments.subject
        self._order = arguments.sort
        self._view = None

    def look(self):
        # Without head, headers and help.
        room = max(self.window.getmaxyx()[0] - 4, 1)
        self._view = self._looking.view(self._subject, self._order, room)

    def draw(self):
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

    def press(self, key):
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
