# SPDX-License-Identifier: Apache-2.0
"""A tenant's walk through Horizon in a real browser (lab/horizon/walk.py).

    python -m lab.horizon [--existing] [--keep]
"""

import argparse
import contextlib
import shutil
import signal
import sys

from lab import cloud
from lab import demo_steps
from lab import deployment
from lab import namespaces
from lab import paths
from lab.control import secret
from lab.horizon import dashboard
from lab.horizon import walk

# The user guide's.
DOCUMENT_PICTURES = paths.CHECKOUT / 'doc' / 'source' / 'user' / 'horizon'


def main():
    """Returns 0 if every step held."""
    parser = argparse.ArgumentParser(prog='python -m lab.horizon',
                                     description=__doc__)
    parser.add_argument('--name', default='horizon', help='the lab (horizon)')
    parser.add_argument('--keep', action='store_true',
                        help='leave everything up afterwards')
    parser.add_argument('--existing', action='store_true',
                        help='in the lab that a demonstration has left up '
                             '(--keep-lab)')
    parser.add_argument('--document', action='store_true',
                        help='put the pictures into the user guide')
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    lab = paths.Lab(arguments.name)
    tour = walk.Walk(lab, arguments.keep, arguments.existing)
    status = 1
    try:
        tour.run()
        status = 0
    except (demo_steps.StepFailed, paths.LabError) as error:
        print(f'\nFAILED: {error}\nLogs: {lab.logs}', file=sys.stderr)
    except KeyboardInterrupt:
        print('\nInterrupted.', file=sys.stderr)
    if status == 0 and arguments.document:
        _document()
    if status == 0 and arguments.keep:
        print(f'\nHorizon: {dashboard.forward(lab)}   user {cloud.TENANT}   '
              f'password {secret.password(lab, cloud.TENANT)}\n'
              f'For the CLI:  . {cloud.activate_file(lab)}\n'
              f'To end it:  python -m lab down --name {lab.name}')
        return status
    with contextlib.suppress(paths.LabError):
        deployment.down(lab)
    left = namespaces.hosts(lab)
    if left:
        print(f'FAILED: namespaces are left: {left}', file=sys.stderr)
        status = 1
    if status == 0:
        print('\nEvery step held. Report: '
              f'{walk.REPORT.relative_to(paths.CHECKOUT)}')
    return status


def _document():
    DOCUMENT_PICTURES.mkdir(exist_ok=True)
    for picture in sorted(walk.PICTURES.glob('*.png')):
        shutil.copy(picture, DOCUMENT_PICTURES)


if __name__ == '__main__':
    sys.exit(main())
