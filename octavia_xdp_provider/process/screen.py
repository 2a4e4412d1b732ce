# SPDX-License-Identifier: Apache-2.0
"""A terminal screen that is refreshed periodically.

It uses curses, which comes with Python and supports all terminals; a widget
library would be another dependency for a table and four keys.
"""

import contextlib
import curses
import os
import sys
import time


class Screen:
    """Subclasses read the data, draw it and handle keys.

    :param interval_s: seconds between two readings.
    """

    def __init__(self, window: 'curses.window', interval_s: float) -> None:
        self.window = window
        self._interval_s = interval_s

    def look(self) -> None:
        """Read the data."""
        raise NotImplementedError

    def draw(self) -> None:
        """Draw the data. Also called before the first reading."""
        raise NotImplementedError

    def press(self, key: int) -> bool:
        """Handle a key. Returns whether the program should end."""
        raise NotImplementedError

    def run(self) -> None:
        """Refresh the screen until a key or SIGINT ends the program."""
        with contextlib.suppress(curses.error):
            curses.curs_set(0)  # not all terminals can hide the cursor
        self.window.keypad(True)
        # Show the first rates soon.
        due = time.monotonic() + min(self._interval_s, 0.5)
        self._show()
        while True:
            remaining = due - time.monotonic()
            if remaining <= 0:
                self.look()
                self._show()
                due = time.monotonic() + self._interval_s
                continue
            self.window.timeout(max(int(remaining * 1000), 1))
            try:
                key = self.window.getch()
            except KeyboardInterrupt:
                return
            if key != -1:
                if self.press(key):
                    return
                self._show()

    def _show(self) -> None:
        self.window.erase()
        self.draw()
        self.window.refresh()

    def put(self, line: int, text: str, attribute: int = curses.A_NORMAL
            ) -> None:
        """Write a line of text, cut to the screen; -1 is the last line."""
        height, width = self.window.getmaxyx()
        if line < 0:
            line += height
        if 0 <= line < height:
            self.window.addnstr(line, 0, text.ljust(width - 1), width - 1,
                                attribute)


def lacking() -> str | None:
    """Return why there can be no screen, or None."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        return 'top needs a terminal'
    kind = os.environ.get('TERM', '')
    try:
        curses.setupterm()
    except curses.error as error:
        return f'{error} (TERM={kind})'
    if not curses.tigetstr('cup'):
        return f'a terminal of the type {kind} has no cursor'
    return None
