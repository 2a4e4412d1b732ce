# SPDX-License-Identifier: Apache-2.0
"""Work in a thread during a `with` block."""

import threading


class Background:
    """Runs work() in a thread; the end of the block waits for it.

    work() must return soon after `ending` is set.
    """

    def __init__(self):
        self.ending = threading.Event()
        self._thread = threading.Thread(target=self.work)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_exception):
        self.ending.set()
        self._thread.join()

    def work(self):
        """Run until the end of the block."""
        raise NotImplementedError
