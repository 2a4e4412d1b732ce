# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-ctl: what an LB node does with packets, and why."""

import argparse
import sys

from octavia_xdp_provider.cmd import command
from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.ctl import capture
from octavia_xdp_provider.ctl import explain
from octavia_xdp_provider.ctl import node as nodes
from octavia_xdp_provider.ctl import packet
from octavia_xdp_provider.ctl import rates
from octavia_xdp_provider.ctl import show
from octavia_xdp_provider.ctl import top
from octavia_xdp_provider.ctl import trace
from octavia_xdp_provider.ctl import upgrade
from octavia_xdp_provider.ctl import verify
from octavia_xdp_provider.node.datapath import DatapathError
from octavia_xdp_provider.process import arguments as argument_types
from octavia_xdp_provider.process import stdout

PROGRAM = 'octavia-xdp-ctl'
_SECONDS = argument_types.seconds(86400)


def _number(low, high, name='number'):
    """Return an argument type for an integer in a range."""
    def parse(text):
        value = int(text, 0)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(
                f'{value} is not from {low} to {high}')
        return value
    parse.__name__ = name
    return parse


def _filters(parser):
    parser.add_argument('--vip', type=nodes.address,
                        help='only services of this address')
    parser.add_argument('--protocol', type=nodes.protocol,
                        help='only services of TCP, UDP or SCTP')
    parser.add_argument('--port', type=nodes.port,
                        help='only services of this port')


def _json(parser):
    parser.add_argument('--json', action='store_true', help='for programs')


def _command(commands, function, name, summary, description):
    """Add the parser of a command that ``function`` runs."""
    parser = commands.add_parser(name, help=summary, description=description)
    parser.set_defaults(function=function)
    return parser


def _add_show(commands):
    parser = _command(commands, show.run, 'show', 'what the tables hold',
                      'Show what the node\'s tables hold.')
    subjects = parser.add_subparsers(dest='subject', required=True,
                                     metavar='SUBJECT')
    for name, function in show.SUBJECTS.items():
        subject = subjects.add_parser(name, help=function.__doc__,
                                      description=function.__doc__)
        if name not in ('neighbours', 'programs'):
            _filters(subject)
        _json(subject)


def _add_top(commands):
    parser = _command(commands, top.run, 'top', 'live rates',
                      'Show rates, live.')
    parser.add_argument('--sort', choices=rates.ORDERS, default='packets',
                        help='what comes first (%(default)s)')
    parser.add_argument('--interval', type=_SECONDS, default=1.0,
                        metavar='SECONDS', help='between two readings '
                        '(%(default)s)')
    parser.add_argument('--batch', action='store_true',
                        help='write text, for pipes')
    parser.add_argument('-n', '--count', type=_number(0, 10 ** 9), default=0,
                        help='with --batch: number of views; 0: no end')
    parser.add_argument('--rows', type=_number(1, 10 ** 6), default=20,
                        help='with --batch: services at most (%(default)s)')
    _json(parser)


def _add_explain(commands):
    parser = _command(
        commands, explain.run, 'explain',
        'what the program does with a packet, and why',
        'Show what the program does with a packet, step by step. '
        'Nothing is sent, and nothing is left in counters or tables. Exit '
        'status: 0, or 1 if the program does not do what the tables say.')
    parser.add_argument(
        'what', nargs='*', metavar='PROTOCOL SOURCE DESTINATION',
        help='tcp, udp, sctp or icmp (echo request), and ADDRESS:PORT or '
             '[ADDRESS]:PORT; of icmp, ADDRESS')
    parser.add_argument('--file', help='packets of a pcap or pcapng file')
    parser.add_argument('--number', type=_number(1, 10 ** 9),
                        help='only this packet of the file')
    parser.add_argument('--steps', action='store_true',
                        help='all steps, also of many packets')
    parser.add_argument('--interface',
                        help='where it comes in (the first with the program)')
    parser.add_argument('--syn', action='store_true',
                        help='it opens a flow (SYN, INIT)')
    parser.add_argument('--length', type=_number(0, 65575), default=0,
                        help='bytes of the IP packet (what it needs)')
    parser.add_argument('--dscp', type=_number(0, 63), default=0)
    parser.add_argument('--vlan', type=_number(0, 4095), action='append',
                        default=[], help='VLAN tag; of two, the outer first')
    parser.add_argument('--fragment', choices=('first', 'later'))
    parser.add_argument('--may-fragment', action='store_true',
                        help='IPv4 without DF')
    parser.add_argument('--payload', type=bytes.fromhex, default=b'',
                        metavar='HEX', help='what follows the header')
    _json(parser)


def _add_trace(commands):
    parser = _command(
        commands, trace.run, 'trace',
        'packets of a VIP, before and after the program',
        'Copy packets of a VIP, before and after the program. '
        'Without this command running it costs nothing.')
    parser.add_argument('vip', type=nodes.address, metavar='VIP')
    parser.add_argument('-w', '--write', metavar='FILE',
                        help='a pcapng file, "-" for standard output; '
                             'without it, lines of text')
    parser.add_argument('--every', type=_number(1, 2 ** 32 - 1), default=1,
                        metavar='N', help='copy one packet in N of each CPU '
                        '(%(default)s)')
    parser.add_argument('--count', type=_number(0, 2 ** 63), default=0,
                        help='end after this number of packets')
    parser.add_argument('--seconds', type=_SECONDS, default=None,
                        metavar='SECONDS', help='end after this time')
    parser.add_argument('--snaplen', type=_number(1, 3520), default=256,
                        help='bytes of a frame that are kept (%(default)s)')
    parser.add_argument('--buffer', type=_number(4096, 2 ** 28),
                        default=2 ** 22, help='bytes for packets that are '
                        'not written yet (%(default)s)')


def _add_upgrade(commands):
    parser = _command(
        commands, upgrade.run, 'upgrade',
        'let another version of the library take over',
        'Let a library take over program and tables from the library that '
        'holds them, up or down, without losing a packet. If it cannot, '
        'nothing changes.')
    parser.add_argument('--dry-run', action='store_true',
                        help='build and load everything, change nothing, and '
                             'show what would change')
    parser.add_argument('--library', default=argparse.SUPPRESS,
                        help='the library that takes over ([datapath] '
                             'library)')
    parser.add_argument('--from-library', metavar='LIBRARY',
                        help='the library that hands over '
                             '(liboctavia_xdp.so.N of the pinned layout N)')
    _json(parser)


def parser():
    result = argparse.ArgumentParser(
        prog=PROGRAM, description='Shows what an LB node does with packets, '
        'and why.',
        epilog='Exit status: 0; 1 if verify or explain found a difference; '
               '2 if it could not be done.')
    result.add_argument('--config-file', action='append',
                        help='configuration file of the node')
    result.add_argument('--pin-directory',
                        help='in place of [datapath] pin_directory')
    result.add_argument('--lock-file',
                        help='in place of datapath.lock in [agent] '
                             'run_directory')
    result.add_argument('--library',
                        help='in place of [datapath] library')
    commands = result.add_subparsers(required=True, metavar='COMMAND')
    _add_show(commands)
    _add_top(commands)
    _add_explain(commands)
    _add_trace(commands)
    _add_upgrade(commands)
    _json(_command(
        commands, verify.run, 'verify',
        'compute every table again, and compare',
        'Compute every table again and compare it with the kernel\'s. Exit '
        'status: 0, or 1 if a table differs.'))
    return result


def _check(result, arguments):
    """Refuse combinations that argparse cannot check."""
    if arguments.function is explain.run:
        if len(arguments.vlan) > 2:
            result.error('--vlan: at most twice')
        if arguments.number and not arguments.file:
            result.error('--number is of a --file')
    if arguments.function is top.run and not arguments.batch and (
            arguments.count or arguments.json):
        result.error('-n and --json need --batch')


def _run(arguments):
    if arguments.function is upgrade.run:
        return upgrade.run(arguments)
    with nodes.open_node(arguments) as node:
        return arguments.function(node, arguments)


def main(argv=None):
    stdout.prepare()
    commands = parser()
    arguments = commands.parse_args(argv)
    _check(commands, arguments)
    return command.run(PROGRAM, lambda: _run(arguments), {
        DatapathError: lambda error: error.text,
        option_values.ConfigurationError: str,
        packet.PacketError: str,
        capture.CaptureError: lambda error: f'{arguments.file}: {error}'})


if __name__ == '__main__':
    sys.exit(main())
