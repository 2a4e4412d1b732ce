# SPDX-License-Identifier: Apache-2.0
"""The RST of commands, from the parsers that read the command line.

Programs are argparse's, cliff's (octavia-xdp-manage) and oslo.config's (the
daemons); all are shown alike: usage, arguments and options of a program and of
each of its commands, as ``option`` directives of Sphinx. cliff's own extension
would show commands of entry points alone, and repeat with each of them what
cliff adds to lists.
"""

import argparse
import re

from cliff import lister
from cliff import show
from oslo_upgradecheck import upgradecheck

from octavia_xdp_provider.cmd import announcer
from octavia_xdp_provider.cmd import ctl
from octavia_xdp_provider.cmd import drops
from octavia_xdp_provider.cmd import host
from octavia_xdp_provider.cmd import status
from octavia_xdp_provider.config import options
from octavia_xdp_provider.manage import app

DAEMONS = ('octavia-xdp-agent', 'octavia-xdp-controller',
           'octavia-xdp-host-agent', 'octavia-xdp-proxy-agent',
           'octavia-xdp-proxy-launcher', 'octavia-xdp-result-handler')
# What argparse itself calls the groups of arguments without a group.
OWN_GROUPS = ('positional arguments', 'options')


def _daemon(program):
    conf = options.new()
    conf([], project='octavia-xdp', prog=program, default_config_files=[],
         default_config_dirs=[])
    # oslo.config shows its parser to nobody, but prints it with --help.
    return conf._oparser


def _status():
    conf = options.new()
    upgradecheck.register_cli_options(conf, status.Checks(conf))
    conf(['upgrade', 'check'], project='octavia-xdp',
         prog='octavia-xdp-status', default_config_files=[],
         default_config_dirs=[])
    return conf._oparser


PARSERS = {
    'octavia-xdp-announcer': announcer.parser,
    'octavia-xdp-ctl': ctl.parser,
    'octavia-xdp-drops': drops.parser,
    'octavia-xdp-host': host.parser,
    'octavia-xdp-status': _status,
    **{name: lambda name=name: _daemon(name) for name in DAEMONS},
}


def _escape(text):
    """Text that means itself in RST."""
    return re.sub(r'([*`|\\_\[\]<>])', r'\\\1', text)


def _help(parser, action):
    text = parser._get_formatter()._expand_help(action)
    return _escape(' '.join(text.split()))


def _value(action):
    """What is written after an option, or in the place of an argument."""
    if action.choices is not None and not action.metavar:
        word = '{' + ','.join(map(str, action.choices)) + '}'
    else:
        word = action.metavar or action.dest.upper()
        word = word if isinstance(word, str) else ' '.join(word)
    return word


def _option(parser, action):
    """Lines of one argument or option."""
    if not action.option_strings:
        head = _value(action)
    elif action.nargs == 0:
        head = ', '.join(action.option_strings)
    else:
        head = ', '.join(f'{name} {_value(action)}'
                         for name in action.option_strings)
    yield from (f'.. option:: {head}', '')
    if action.help:
        yield from (f'   {_help(parser, action)}', '')


def _usage(parser):
    formatter = argparse.HelpFormatter(parser.prog, width=76)
    formatter.add_usage(parser.usage, parser._actions,
                        parser._mutually_exclusive_groups, prefix='')
    yield from ('.. code-block:: text', '')
    for line in formatter.format_help().splitlines():
        yield f'   {line}' if line else ''
    yield ''


def _actions(parser, groups):
    """Those of some groups, without --help and commands."""
    return [action for group in parser._action_groups
            if groups(group.title) for action in group._group_actions
            if not isinstance(action, (argparse._HelpAction,
                                       argparse._SubParsersAction))
            and action.help != argparse.SUPPRESS]


def _commands(parser):
    """Parsers of a parser's commands, by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices
    return {}


def _page(parser, level=0, title=None, own_only=False):
    """Lines of a parser and those of its commands, with titles from the
    second on."""
    if level:
        title = title or parser.prog
        yield from (title, '-' * len(title), '')
    yield from (f'.. program:: {parser.prog}', '')
    if level and parser.description:
        yield from (_escape(' '.join(parser.description.split())), '')
    if not own_only:
        yield from _usage(parser)
    for action in _actions(
            parser, lambda name: not own_only or name in OWN_GROUPS):
        yield from _option(parser, action)
    for command in _commands(parser).values():
        if _commands(command):
            for below in _commands(command).values():
                yield from _page(below, level + 1)
        else:
            yield from _page(command, level + 1)
    if parser.epilog and not level:
        yield from (_escape(' '.join(parser.epilog.split())), '')


def _shared(command, title):
    """What cliff adds to each command that lists or shows."""
    yield from (title, '-' * len(title), '')
    parser = command(None, None).get_parser('octavia-xdp-manage')
    yield from (f'.. program:: {title}', '')
    for action in _actions(parser, lambda name: name not in OWN_GROUPS):
        yield from _option(parser, action)


def _manage():
    """octavia-xdp-manage, whose commands are cliff's."""
    application = app.Application()
    parser = application.parser
    parser.prog = app.PROGRAM
    yield from _page(parser)
    kinds = {}
    for name, command in sorted(app.COMMANDS.items()):
        below = command(application, None).get_parser(
            f'{app.PROGRAM} {name}')
        below.epilog = None
        yield from _page(below, 1, own_only=True)
        for kind, title in ((lister.Lister, 'Commands that list'),
                            (show.ShowOne, 'Commands that show')):
            if issubclass(command, kind):
                kinds.setdefault(title, command)
    for title, command in sorted(kinds.items()):
        yield from _shared(command, title)


def lines(program):
    """The RST of a program's options.

    :raises KeyError: a program that is not known here.
    """
    if program == app.PROGRAM:
        return list(_manage())
    return list(_page(PARSERS[program]()))
