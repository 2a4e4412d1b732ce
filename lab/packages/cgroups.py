# SPDX-License-Identifier: Apache-2.0
"""Cgroups for processes with their own cgroup namespace.

They are of version 2, which is all that systemd needs, even if the machine
also uses version 1.
"""

import contextlib
import os
import pathlib

from lab import demo_steps

CGROUPS = pathlib.Path('/sys/fs/cgroup')


class Group:
    """A group that processes enter before they get their namespace.

    :ivar enter: prefix of a command that runs it in the group.
    :raises demo_steps.StepFailed: the machine has no version 2.
    """

    def __init__(self, name):
        for parent in CGROUPS, CGROUPS / 'unified':
            if (parent / 'cgroup.controllers').exists():
                break
        else:
            raise demo_steps.StepFailed(
                f'no cgroups of version 2 are mounted at {CGROUPS}')
        self._path = parent / name
        self._path.mkdir(exist_ok=True)
        self.enter = ['sh', '-c', f'echo $$ > {self._path}/cgroup.procs; '
                      'exec "$@"', 'sh']

    def removed(self):
        """Try to remove the group; return whether it is gone.

        It stays while it has processes.
        """
        for directory, _, _ in os.walk(self._path, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(directory)
        return not self._path.exists()
