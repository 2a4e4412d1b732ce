# SPDX-License-Identifier: Apache-2.0
"""A tenant's walk through Horizon in a real browser (lab/horizon/walk.py).

    python -m lab.horizon [--existing] [--keep]
"""

import argparse
import shutil
import signal
import sys

from lab import cloud
from lab import demo_steps
from lab import paths
from lab.horizon import walk

# Pictures of the user guide.
DOCUMENT_PICTURES = paths.CHECKOUT / 'doc' / 'source' / 'user' / 'horizon'


def main():
    """Return 0 if all steps succeeded."""
    parser = argparse.ArgumentParser(prog='python -m lab.horizon',
                                     description=__doc__)
    parser.add_argument('--name', default='horizon', help='the lab (horizon)')
    parser.add_argument('--keep', action='store_true',
                        help='leave everything up afterwards')
    parser.add_argument('--existing', action='store_true',
                        help='use the lab of a demonstration with '
                             '--keep-lab')
    parser.add_argument('--document', action='store_true',
                        help='copy the pictures to the user guide')
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    lab = paths.Lab(arguments.name)
    tour = walk.Walk(lab, arguments.keep, arguments.existing)

    def describe_kept_lab():
        return (f'\nHorizon: {tour.address}\n'
                f'For the CLI:  . {cloud.activate_file(lab)}\n'
                f'To end it:  python -m lab down --name {lab.name}')
    status = demo_steps.run(
        tour, describe_kept_lab if arguments.keep else None)
    if status == 0 and arguments.document:
        _copy_pictures()
    return status


def _copy_pictures():
    DOCUMENT_PICTURES.mkdir(exist_ok=True)
    for picture in sorted(walk.PICTURES.glob('*.png')):
        shutil.copy(picture, DOCUMENT_PICTURES)


if __name__ == '__main__':
    sys.exit(main())
