# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-drops: where and why a machine loses packets of VIPs."""

import argparse
import contextlib
import ipaddress
import os
import sys
import typing

from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.config import options
from octavia_xdp_provider.drops import datapath_drops
from octavia_xdp_provider.drops import environment
from octavia_xdp_provider.drops import host_drops
from octavia_xdp_provider.drops import kernel
from octavia_xdp_provider.drops import view
from octavia_xdp_provider.drops import watch
from octavia_xdp_provider.host import run_directory as host_files
from octavia_xdp_provider.node import run_directory as node_files
from octavia_xdp_provider.process import arguments as argument_types
from octavia_xdp_provider.process import interrupts
from octavia_xdp_provider.process import stdout

PROGRAM = 'octavia-xdp-drops'
_SECONDS = argument_types.seconds(1000000)
# 2 is argparse's status for wrong arguments.
CANNOT = 3


class Refused(Exception):
    """The command cannot run here or now; the text says what to do."""


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


def parser():
    result = argparse.ArgumentParser(
        prog=PROGRAM,
        description='Shows live where in the kernel packets of VIPs are lost '
                    'and why: dropped by the network stack, by XDP, and by '
                    'the datapath of an LB node or a hypervisor.',
        epilog='Exit status: 0 after --count, --duration, SIGINT or SIGTERM; '
               '2 wrong arguments; 3 this machine lacks something, which is '
               'named on standard error.')
    result.add_argument('--config-file', action='append',
                        help='configuration file to read')
    result.add_argument('--vip', action='append', type=_address,
                        metavar='ADDRESS',
                        help='a VIP, IPv4 or IPv6; repeatable. Default: '
                             'those of all services of an LB node, of all '
                             'members of a hypervisor')
    result.add_argument('--datapath', action='store_true',
                        help='the drops of the datapath alone, for which '
                             'neither bcc nor tracing is needed')
    result.add_argument('--interval', type=_SECONDS, default=1.0,
                        metavar='SECONDS',
                        help='time between two readings (%(default)s)')
    result.add_argument('--count', type=_count, metavar='NUMBER',
                        help='end after this many readings')
    result.add_argument('--duration', type=_SECONDS, metavar='SECONDS',
                        help='end after this time')
    result.add_argument('--json', action='store_true',
                        help='for programs: an object a line')
    return result


def _print_error(text):
    print(f'{PROGRAM}: {text}', file=sys.stderr)


def _open_source(pins, open_it, make):
    """Return (source, None), or (None, problem).

    :param pins: directory of the datapath's state on machines that have it.
    """
    try:
        return make(open_it()), None
    except OSError as error:
        # The rest of cffi's text is how it searched for the library.
        return None, _Problem(str(error).split('.  Additionally')[0],
                              os.path.isdir(pins))


class _Problem(typing.NamedTuple):
    """``is_here``: the problem is with a state that this machine has."""

    text: str
    is_here: bool


def _open_own(arguments, stack):
    """Return the datapaths as arguments of watch.Watch, and problems.

    Usually a machine is either an LB node or a hypervisor, so a missing
    datapath is a problem only if there is no other.
    """
    try:
        conf = options.load(config_files=arguments.config_file, prog=PROGRAM)
    except option_values.ConfigurationError as error:
        raise Refused(str(error)) from error
    sources, problems = {}, {}
    for name, kind, pins, open_it, make in (
            ('datapath', 'LB node', conf.datapath.pin_directory,
             node_files.RunDirectory(conf).open_datapath,
             datapath_drops.DatapathDrops),
            ('host', 'hypervisor', conf.host_agent.pin_directory,
             host_files.RunDirectory(conf).open_datapath,
             host_drops.HostDrops)):
        source, problem = _open_source(pins, open_it, make)
        if source is not None:
            stack.callback(source.close)
            sources[name] = source
        else:
            problems[kind] = problem
    return sources, [f'{kind}: {problem.text}' for kind, problem
                     in problems.items() if problem.is_here or not sources]


def _open(arguments, stack):
    """Return the arguments of watch.Watch."""
    own, problems = _open_own(arguments, stack)
    problem = '; '.join(problems)
    if arguments.datapath:
        if not own:
            raise Refused(
                f'no datapath\'s counters can be read ({problem}): is this '
                f'an LB node or a hypervisor, does its agent run, and is '
                f'this process root?')
    elif missing := environment.all_missing():
        raise Refused('\n'.join(
            missing + ['--datapath shows the drops of the datapath without '
                       'that']))
    elif not own and not arguments.vip:
        raise Refused(
            f'the VIPs of this machine are not known, because no datapath '
            f'can be read ({problem}): name them with --vip')
    if problem:
        _print_error('the drops of a datapath are not shown, because it '
                     f'cannot be read ({problem})')
    if arguments.datapath:
        return own
    try:
        tracing = kernel.Kernel()
    except environment.Missing as error:
        raise Refused(
            f'{error}\n--datapath shows the drops of the datapath without '
            f'that') from error
    stack.callback(tracing.close)
    return {**own, 'kernel': tracing, 'vips': arguments.vip}


def main(argv=None):
    stdout.prepare()
    arguments = parser().parse_args(argv)
    if arguments.datapath and arguments.vip:
        parser().error('--vip cannot go with --datapath: the datapath counts '
                       'its drops for the machine, not for each VIP')
    end = interrupts.End()
    show = (view.JsonLines if arguments.json else view.Tables)(sys.stdout)
    try:
        with contextlib.ExitStack() as stack:
            watch.Watch(show, **_open(arguments, stack)).run(
                end, arguments.interval, arguments.count,
                arguments.duration)
    except BrokenPipeError:
        stdout.abandon()  # the reader has closed the pipe
    except Refused as refused:
        for line in str(refused).split('\n'):
            _print_error(line)
        return CANNOT
    except (environment.Missing, OSError) as error:
        _print_error(str(error))
        stdout.abandon()
        return CANNOT
    return 0


if __name__ == '__main__':
    sys.exit(main())
