# SPDX-License-Identifier: Apache-2.0
"""Starts HAProxy, and reads what it has to say."""

from collections.abc import Callable
import contextlib
import fcntl
import json
import os
import subprocess
import sys

from octavia_xdp_provider.contracts import proxy_launch
from octavia_xdp_provider.proxy.launcher import cgroups
from octavia_xdp_provider.proxy.launcher import files
from octavia_xdp_provider.proxy.launcher import stage

_STAGE = stage.__file__
_TEXT_MAX = 64 * 1024
_SHOWN_MAX = 4096
_F_ADD_SEALS, _F_SEAL_SHRINK, _F_SEAL_GROW = 1033, 2, 4


class Started:
    """A process that was started; its standard error is kept.

    It writes to memory that cannot grow, whatever it says and for how long.
    """

    def __init__(self, order: stage.Order, enter: Callable[[int], None]
                 ) -> None:
        """:param enter: moves the process to its cgroup."""
        self._text = os.memfd_create('stderr', os.MFD_ALLOW_SEALING
                                     | os.MFD_CLOEXEC)
        os.ftruncate(self._text, _TEXT_MAX)
        fcntl.fcntl(self._text, _F_ADD_SEALS, _F_SEAL_SHRINK | _F_SEAL_GROW)
        # -I, -S: nothing of the environment or of other packages is loaded.
        self._process = subprocess.Popen(
            [sys.executable, '-I', '-S', _STAGE], stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, stderr=self._text,
            pass_fds=order['descriptors'], start_new_session=True)
        self.pid = self._process.pid
        assert self._process.stdin is not None
        try:
            enter(self.pid)
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(json.dumps(order).encode() + b'\n')
                self._process.stdin.flush()
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()

    def status(self) -> int | None:
        """Return the exit status, None while it runs."""
        return self._process.poll()

    def text(self) -> str:
        """Return the end of what it has written."""
        return _read(self._text)

    def close(self) -> None:
        os.close(self._text)


def _read(file: int) -> str:
    text = os.pread(file, _TEXT_MAX, 0).rstrip(b'\0')
    return text[-_SHOWN_MAX:].decode(errors='replace').strip()


def order(run: files.Files, identity: str, launch: proxy_launch.Launch,
          namespace: str, descriptors: list[int], arguments: list[str]
          ) -> stage.Order:
    """Return what a process is told that becomes HAProxy."""
    connections = launch['connections']
    return {
        'namespace': namespace, 'arguments': arguments,
        'own': str(run.private(identity)), 'view': run.view,
        'runtime': str(run.runtime(identity)), 'number': launch['number'],
        'environment': {
            item['name']: str(proxy_launch.FIRST_DESCRIPTOR + place)
            for place, item in enumerate(launch['sockets'])},
        # Both ends of a connection, and pipes between them; HAProxy refuses
        # to start if it could not have as many as it might need.
        'files': (3 * connections + 2 * len(launch['sockets'])
                  + len(launch['members']) + 64 * launch['threads'] + 512),
        'tasks': cgroups.tasks(launch), 'descriptors': descriptors}
