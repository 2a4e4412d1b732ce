# SPDX-License-Identifier: Apache-2.0
"""The record of a lab on disk: a JSON file of sections of entries."""

import contextlib
import fcntl
import json
import os
import threading


class State:
    """A dictionary of dictionaries that several processes may change.

    Its sections are `processes` (name → record), `addresses` (host → name →
    address), `credentials`, and those of other modules.
    """

    def __init__(self, path):
        self._path = path
        self._thread_lock = threading.Lock()

    def section(self, name):
        """Return a copy of a section; it is empty if there is none."""
        return self._read().get(name, {})

    def get(self, section, key, default=None):
        """Return one entry of a section."""
        return self.section(section).get(key, default)

    def put(self, section, key, value):
        """Set one entry of a section."""
        with self._changing() as content:
            content.setdefault(section, {})[key] = value

    def remove(self, section, key):
        """Remove an entry of a section, which may be absent."""
        with self._changing() as content:
            content.get(section, {}).pop(key, None)

    def _read(self):
        try:
            return json.loads(self._path.read_text())
        except FileNotFoundError:
            return {}

    @contextlib.contextmanager
    def _changing(self):
        lock_path = self._path.with_suffix('.lock')
        with self._thread_lock, open(lock_path, 'w') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            content = self._read()
            yield content
            new = self._path.with_suffix('.new')
            new.touch(mode=0o600)
            new.write_text(json.dumps(content, indent=2, sort_keys=True))
            os.replace(new, self._path)
