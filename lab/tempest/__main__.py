# SPDX-License-Identifier: Apache-2.0
"""Run Octavia's own tests of its API against this provider, in a lab.

After --, regular expressions select tests. tools/test-octavia-api creates the
environment of the tests and calls this.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys

from lab import deployment
from lab import namespaces
from lab import paths
from lab.tempest import adaptations
from lab.tempest import configuration
from lab.tempest import results
from lab.tempest import skips

ENVIRONMENT = paths.BUILD / 'tempest'
PLUGIN = next(iter(ENVIRONMENT.glob(
    f'lib/python3*/site-packages/{adaptations.PLUGIN}')), None)
TESTS = 'tests'


def main():
    """Return 0 if no test failed, and all skipped tests may be skipped."""
    options = _parse_arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    lab = paths.Lab(options.name)
    directory = paths.BUILD / 'octavia-api-tests'
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    adaptations.copy(PLUGIN, directory, adapt=not options.as_it_is)
    try:
        if not (options.keep and namespaces.exists(lab, paths.CONTROL)):
            deployment.up(lab, proxies=configuration.PROXIES,
                          provider_options=configuration.PROVIDER_OPTIONS,
                          node_options=configuration.NODE_OPTIONS)
        configuration.write(lab, directory)
        outcome = _run(lab, directory, options)
    finally:
        if not options.keep:
            deployment.down(lab)
    results.show(outcome)
    return 0 if outcome.ok else 1


def _run(lab, directory, options):
    repository = directory / 'results'
    repository.mkdir()
    stestr = [ENVIRONMENT / 'bin' / 'stestr', '--repo-url', repository,
              '--test-path', directory / adaptations.PLUGIN / TESTS,
              '--top-dir', directory,
              '--group_regex', r'([^\.]*\.)*']
    environment = {
        **os.environ, 'TEMPEST_CONFIG_DIR': str(directory),
        'TEMPEST_CONFIG': 'tempest.conf', 'PYTHONPATH': str(directory),
        'OS_LOG_CAPTURE': '1'}
    with namespaces.inside(lab, paths.CONTROL):
        # The tests are independent, so their order does not matter.
        subprocess.call(
            [*stestr, 'run', '--serial', '--exclude-regex',
             '|'.join(pattern for pattern, _why in skips.LEFT_OUT),
             *options.expressions], cwd=directory, env=environment)
    stream = subprocess.run([*stestr, 'last', '--subunit'], cwd=directory,
                            capture_output=True, check=False).stdout
    return results.read(stream)


def _parse_arguments():
    parser = argparse.ArgumentParser(prog='tools/test-octavia-api',
                                     description=__doc__)
    parser.add_argument('--name', default='octavia-api', help='the lab')
    parser.add_argument('--as-it-is', action='store_true',
                        help='do not adapt the tests: they then skip '
                             'everything with a connection limit')
    parser.add_argument('--keep', action='store_true',
                        help='use the lab if it is up, and leave it up')
    parser.add_argument('expressions', nargs='*', metavar='EXPRESSION')
    return parser.parse_args()


if __name__ == '__main__':
    sys.exit(main())
