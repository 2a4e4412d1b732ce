# SPDX-License-Identifier: Apache-2.0
"""What the long-running processes have in common: start, signals, end."""

import signal
import sys

from oslo_log import log as logging
from oslo_reports import guru_meditation_report
from oslo_reports import opts as report_opts
import pbr.version

from octavia_xdp_provider.common import option_values
from octavia_xdp_provider.common import options

LOG = logging.getLogger(__name__)


class _Version:
    """What a Guru Meditation Report prints of the program."""

    def __init__(self, program):
        self._info = pbr.version.VersionInfo('octavia-xdp-provider')
        self._program = program

    def vendor_string(self):
        return 'OpenStack'

    def product_string(self):
        return self._program

    def version_string_with_package(self):
        return self._info.release_string()


def load(program, argv=None):
    """Configuration from command line and files, with logging set up.

    Ends the process with a message where a value cannot be used.
    """
    try:
        conf = options.load(sys.argv[1:] if argv is None else argv,
                            prog=program)
    except option_values.ConfigurationError as error:
        sys.exit(f'{program}: {error}')
    logging.setup(conf, program)
    return conf


def run(program, make_service):
    """Run a service with ``run()`` and ``stop()`` until SIGTERM or SIGINT.

    :param make_service: called with the configuration. Its ``run()`` may
        return an exit status.
    :returns: exit status.
    """
    conf = load(program)
    report_opts.set_defaults(conf)
    guru_meditation_report.TextGuruMeditation.setup_autorun(
        _Version(program), conf=conf)
    try:
        service = make_service(conf)
    except option_values.ConfigurationError as error:
        LOG.error('%s cannot start: %s', program, error)
        print(f'{program}: {error}', file=sys.stderr)
        return 1
    except Exception as error:
        LOG.exception('%s cannot start.', program)
        print(f'{program}: {error}', file=sys.stderr)
        return 1
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: service.stop())
    return service.run() or 0
