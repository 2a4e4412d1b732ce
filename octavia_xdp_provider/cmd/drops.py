# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-drops: where and why a node loses packets of its VIPs."""

import argparse
import contextlib
import ipaddress
import signal
import sys
import threading

from octavia_xdp_provider.common import arguments as argument_types
from octavia_xdp_provider.common import option_values
from octavia_xdp_provider.common import options
from octavia_xdp_provider.common import stdout
from octavia_xdp_provider.drops import datapath_drops
from octavia_xdp_provider.drops import environment
from octavia_xdp_provider.drops import kernel
from octavia_xdp_provider.drops import view
from octavia_xdp_provider.drops import watch
from octavia_xdp_provider.node import run_directory

PROGRAM = 'octavia-xdp-drops'
_SECONDS = argument_types.seconds(1000000)
# 2 is argparse's, for wrong arguments.
CANNOT = 3


class Refused(Exception):
    """Not on this machine, or not now; the text says what to do."""


def _address(text):
    try:
        address = ipaddress.ip_address(text)
        if getattr(address, 'scope_id', None):
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(
            f'{text!r} is no IPv4 or IPv6 address') from None
    return str(getattr(address, 'ipv4_mapped', None) or address)


def _count(text):
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f'{text!r} is no positive number')
    return int(text)


def _parser():
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description='Shows live where in the kernel packets of VIPs are lost '
                    'and why: dropped by the network stack, by XDP, and by '
                    'the datapath itself.',
        epilog='Exit status: 0 after --count, --duration, SIGINT or SIGTERM; '
               '2 wrong arguments; 3 this machine lacks something, which is '
               'named on standard error.')
    parser.add_argument('--config-file', action='append',
                        help='configuration file to read')
    parser.add_argument('--vip', action='append', type=_address,
                        metavar='ADDRESS',
                        help='a VIP, IPv4 or IPv6; repeatable. Default: '
                             'those of all services of the node')
    parser.add_argument('--datapath', action='store_true',
                        help='the drops of the datapath alone, for which '
                             'neither bcc nor tracing is needed')
    parser.add_argument('--interval', type=_SECONDS, default=1.0,
                        metavar='SECONDS',
                        help='time between two readings (%(default)s)')
    parser.add_argument('--count', type=_count, metavar='NUMBER',
                        help='end after this many readings')
    parser.add_argument('--duration', type=_SECONDS, metavar='SECONDS',
                        help='end after this time')
    parser.add_argument('--json', action='store_true',
                        help='for programs: an object a line')
    return parser


def _say(text):
    print(f'{PROGRAM}: {text}', file=sys.stderr)


def _open_datapath(arguments):
    """(datapath_drops.DatapathDrops, None), or (None, why not)."""
    try:
        conf = options.load(config_files=arguments.config_file, prog=PROGRAM)
    except option_values.ConfigurationError as error:
        raise Refused(str(error)) from error
    try:
        node = run_directory.RunDirectory(conf).open_datapath()
        return datapath_drops.DatapathDrops(node), None
    except OSError as error:
        # cffi goes on with how it searched.
        return None, str(error).split('.  Additionally')[0]


def _open(arguments, stack):
    """Arguments of watch.Watch."""
    datapath, problem = _open_datapath(arguments)
    if datapath is not None:
        stack.callback(datapath.close)
    if arguments.datapath:
        if datapath is None:
            raise Refused(
                f'the datapath\'s counters cannot be read ({problem}): is '
                f'this an LB node, does octavia-xdp-agent run, and is this '
                f'process root?')
        return {'datapath': datapath}
    if missing := environment.all_missing():
        raise Refused('\n'.join(
            missing + ['--datapath shows the drops of the datapath without '
                       'that']))
    if datapath is None:
        if not arguments.vip:
            raise Refused(
                f'the VIPs of this node are not known, because the datapath '
                f'cannot be read ({problem}): name them with --vip')
        _say(f'the drops of the datapath are not shown, because it cannot '
             f'be read ({problem})')
    try:
        tracing = kernel.Kernel()
    except environment.Missing as error:
        raise Refused(
            f'{error}\n--datapath shows the drops of the datapath without '
            f'that') from error
    stack.callback(tracing.close)
    return {'datapath': datapath, 'kernel': tracing, 'vips': arguments.vip}


def main(argv=None):
    stdout.prepare()
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.datapath and arguments.vip:
        parser.error('--vip cannot go with --datapath: the datapath counts '
                     'its drops for the node, not for each VIP')
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    show = (view.JsonLines if arguments.json else view.Tables)(sys.stdout)
    try:
        with contextlib.ExitStack() as stack:
            watch.Watch(show, **_open(arguments, stack)).run(
                stop, arguments.interval, arguments.count,
                arguments.duration)
    except BrokenPipeError:
        stdout.abandon()  # whoever read has seen enough
    except Refused as refused:
        for line in str(refused).split('\n'):
            _say(line)
        return CANNOT
    except (environment.Missing, OSError) as error:
        _say(str(error))
        stdout.abandon()
        return CANNOT
    return 0


if __name__ == '__main__':
    sys.exit(main())
