# SPDX-License-Identifier: Apache-2.0
"""A clock that tests move."""


class Clock:
    """A clock that only sleep() advances."""

    def __init__(self, now=100.0):
        self.now = now

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
