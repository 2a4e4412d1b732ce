# SPDX-License-Identifier: Apache-2.0
"""Start, signals and end of the long-running processes.

SIGTERM and SIGINT end a process, SIGHUP makes it reload its configuration,
SIGUSR2 makes it write a Guru Meditation Report.
"""

import contextlib
import faulthandler
import os
import signal
import sys
import threading

from oslo_log import log as logging
from oslo_reports import guru_meditation_report
from oslo_reports import opts as report_opts
import pbr.version

from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.config import options

LOG = logging.getLogger(__name__)


class _Version:
    """The program's version for a Guru Meditation Report."""

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
    """Load the configuration from command line and files; set up logging.

    Ends the process with a message if a value is invalid.
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
        return an exit status. If it has ``reload()``, that is called when
        options have changed.
    :returns: exit status.
    """
    conf = load(program)
    # Writes the stacks of all threads on the watchdog's SIGABRT.
    with contextlib.suppress(AttributeError, OSError, ValueError):
        faulthandler.enable(sys.__stderr__)
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
    handle({signal.SIGTERM: service.stop, signal.SIGINT: service.stop,
            signal.SIGHUP: lambda: reload(
                program, conf, getattr(service, 'reload', lambda: None))})
    try:
        return service.run() or 0
    except option_values.ConfigurationError as error:
        LOG.error('%s cannot start: %s', program, error)
        print(f'{program}: {error}', file=sys.stderr)
        sys.stderr.flush()
        # Threads may be running that nothing stops.
        os._exit(1)


def handle(handlers):
    """Call functions on signals, in a thread of their own: they may need a
    lock that the interrupted main thread holds.

    :param handlers: number of the signal → function.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in handlers:
        signal.signal(number, lambda *_: None)

    def serve():
        while numbers := os.read(reader, 64):
            for number in numbers:
                try:
                    handlers.get(number, lambda: None)()
                except Exception:
                    LOG.exception('Handling of signal %s failed.', number)
    threading.Thread(target=serve, name='signals', daemon=True).start()


def reload(program, conf, changed):
    """Reload the mutable options from the configuration files.

    Nothing changes if a value is invalid. Options that need a restart are
    logged.

    :param changed: called if an option has changed.
    """
    try:
        fresh = options.load(sys.argv[1:], prog=program)
    except (option_values.ConfigurationError, SystemExit) as error:
        LOG.error('SIGHUP: the configuration is not taken, nothing changes: '
                  '%s', error)
        return
    taken = conf.mutate_config_files()
    stale = sorted(f'[{group}] {name}' for group, name
                   in options.differences(conf, fresh))
    LOG.info('SIGHUP: %s options have changed.', len(taken))
    if stale:
        LOG.warning('SIGHUP: a restart is needed for: %s.', ', '.join(stale))
    if taken:
        changed()
