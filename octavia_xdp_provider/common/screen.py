# SPDX-License-Identifier: Apache-2.0
"""A screen of a terminal that shows again and again what there is.

By curses, which is where Python is and knows all terminals; a library with
widgets would be another dependency for a table and four keys.
"""

import contextlib
import curses
import os
import sys
import time


class Screen:
    """Subclasses say what is looked at, drawn, and done at a key.

    :param interval_s: between two looks.
    """

    def __init__(self, window, interval_s):
        self.window = window
        self._interval_s = interval_s

    def look(self):
        """Find out what there is."""
        raise NotImplementedError

    def draw(self):
        """Put it on the screen. Called before the first look as well."""
        raise NotImplementedError

    def press(self, key):
        """Do what a key stands for. Returns whether it ends the program."""
        raise NotImplementedError

    def run(self):
        """Until a key or SIGINT ends it."""
        with contextlib.suppress(curses.error):
            curses.curs_set(0)  # which not all terminals can
        self.window.keypad(True)
        # The first rates come soon.
        due = time.monotonic() + min(self._interval_s, 0.5)
        self._show()
        while True:
            left = due - time.monotonic()
            if left <= 0:
                self.look()
                self._show()
                due = time.monotonic() + self._interval_s
                continue
            self.window.timeout(max(int(left * 1000), 1))
            try:
                key = self.window.getch()
            except KeyboardInterrupt:
                return
            if key != -1:
                if self.press(key):
                    return
                self._show()

    def _show(self):
        self.window.erase()
        self.draw()
        self.window.refresh()

    def put(self, line, text, attribute=curses.A_NORMAL):
        """A line of text, cut where the screen ends; -1 is the last line."""
        height, width = self.window.getmaxyx()
        if line < 0:
            line += height
        if 0 <= line < height:
            self.window.addnstr(line, 0, text.ljust(width - 1), width - 1,
                                attribute)


def lacking():
    """What is missing for a screen, or None."""
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
