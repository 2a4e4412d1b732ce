# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-host: what a hypervisor does with packets of members."""

import argparse
import sys
import uuid

from octavia_xdp_provider.cmd import command
from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.host.library import HostError
from octavia_xdp_provider.hostctl import place
from octavia_xdp_provider.hostctl import show
from octavia_xdp_provider.hostctl import trace
from octavia_xdp_provider.hostctl import verify
from octavia_xdp_provider.process import arguments as argument_types
from octavia_xdp_provider.process import stdout

PROGRAM = 'octavia-xdp-host'
_SECONDS = argument_types.seconds(86400)


def _port_id(text):
    return str(uuid.UUID(text))


def _count(text):
    value = int(text)
    if value < 1:
        raise ValueError(f'{value} is less than 1')
    return value


_port_id.__name__, _count.__name__ = 'port id', 'number'


def _format(parser, text='a table for people, or JSON for programs'):
    parser.add_argument('-f', '--format', choices=('table', 'json'),
                        default='table', help=f'{text} (%(default)s)')


def _command(commands, function, name, summary, description):
    parser = commands.add_parser(name, help=summary, description=description)
    parser.set_defaults(function=function)
    return parser


def _add_show(commands):
    parser = _command(commands, show.run, 'show',
                      'what the datapath holds', 'Show what the '
                      'hypervisor\'s datapath holds.')
    subjects = parser.add_subparsers(dest='subject', required=True,
                                     metavar='SUBJECT')
    for name, function in show.SUBJECTS.items():
        subject = subjects.add_parser(name, help=function.__doc__,
                                      description=f'{function.__doc__}.')
        subject.add_argument('--port', type=_port_id,
                             help='only of this port of Neutron\'s')
        _format(subject)


def _add_trace(commands):
    parser = _command(
        commands, trace.run, 'trace', 'packets that the programs took',
        'Show packets that the programs took or dropped, which tcpdump at '
        'the tap does not see. One trace at a time; without this command '
        'running it costs nothing.')
    parser.add_argument('port', nargs='?', type=_port_id, metavar='PORT',
                        help='id of a port of Neutron\'s (all)')
    parser.add_argument('--count', type=_count, default=None,
                        help='end after this number of packets')
    parser.add_argument('--seconds', type=_SECONDS, default=None,
                        metavar='SECONDS', help='end after this time')
    _format(parser, 'lines for people, or a JSON object per line')


def parser():
    result = argparse.ArgumentParser(
        prog=PROGRAM, description='Shows what a hypervisor does with '
        'packets of members in its VMs.',
        epilog='Exit status: 0; 1 if verify found a difference; 2 if it '
               'could not be done.')
    result.add_argument('--config-file', action='append',
                        help='configuration file of the hypervisor')
    for name in ('pin_directory', 'library', 'run_directory', 'ovsdb'):
        result.add_argument(f'--{name.replace("_", "-")}',
                            help=f'in place of [host_agent] {name}')
    commands = result.add_subparsers(required=True, metavar='COMMAND')
    _add_show(commands)
    _add_trace(commands)
    _format(_command(
        commands, verify.run, 'verify', 'compare what is wanted and there',
        'Compare what the controller wants with what the datapath holds, '
        'and with programs at interfaces. Exit status: 0, or 1 if '
        'something differs.'))
    return result


def main(argv=None):
    stdout.prepare()
    arguments = parser().parse_args(argv)
    return command.run(
        PROGRAM,
        lambda: arguments.function(place.Place(arguments), arguments),
        {HostError: lambda error: error.text,
         option_values.ConfigurationError: str})


if __name__ == '__main__':
    sys.exit(main())
