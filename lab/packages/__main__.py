# SPDX-License-Identifier: Apache-2.0
"""Build the Debian packages, and test them in a clean root.

    python -m lab.packages

It needs root. Each step is recorded in build/packages.json. The exit status is
0 only if every step succeeded. The root comes from apt's sources and has its
own namespaces, in which systemd runs the packaged units.
"""

import os
import shutil
import signal
import sys

from lab import demo_steps
from lab.packages import build
from lab.packages import commands
from lab.packages import root
from lab.packages import scenario


def steps(systemd):
    """Return {name: function} in order."""
    tested = scenario.Scenario(systemd)
    return {
        'make the source from the sdist': build.source,
        'build the packages': build.packages,
        'lintian finds no error': build.lintian,
        'make a clean root': lambda: root.make(
            build.dependencies(), root.ROOT),
        'install an older version': tested.install,
        'start all units': tested.start,
        'upgrade': tested.upgrade,
        'remove': tested.remove,
        'purge': tested.purge,
    }


def main():
    """Run all steps; return 1 at the first failure."""
    if os.geteuid() != 0:
        print('make packages: needs root', file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with build.locked():
            return _run_all()
    except build.Busy as error:
        print(f'make packages: {error}', file=sys.stderr)
        return 1


def _run_all():
    systemd = root.Systemd()
    try:
        return demo_steps.run_all(commands.REPORT, steps(systemd))
    finally:
        systemd.end()
        shutil.rmtree(root.ROOT, ignore_errors=True)
        shutil.rmtree(build.OLD, ignore_errors=True)


if __name__ == '__main__':
    sys.exit(main())
