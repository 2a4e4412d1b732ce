# SPDX-License-Identifier: Apache-2.0
"""The RST of octavia-xdp-member, from the text that its --help prints.

Read from the strings of ``datapath/tools/member/usage.c``, as the program is
not built where the documents are.
"""

import pathlib
import re

USAGE = (pathlib.Path(__file__).resolve().parent.parent.parent
         / 'datapath/tools/member/usage.c')
PROGRAM = 'octavia-xdp-member'
# Options stand two columns in, what they do stands below each other.
OPTION = re.compile(r'  (--\S+(?: \S+)*)(?:  +(.*))?$')


def text():
    """What --help prints."""
    source = USAGE.read_text().replace('PROGRAM', f'"{PROGRAM}"')
    start = source.index('fputs(')
    strings = re.findall(r'"((?:[^"\\]|\\.)*)"', source[start:])
    return ''.join(strings).replace(r'\n', '\n').replace(r'\"', '"')


def synopsis():
    """Lines of the usage."""
    return [line.removeprefix('usage:').strip()
            for line in text().splitlines() if f' {PROGRAM} ' in line]


def options():
    """[option with its value, what it does], and what follows them."""
    listed, rest = [], []
    for line in text().splitlines():
        if match := OPTION.match(line):
            listed.append([match[1], match[2] or ''])
        elif line.startswith(' ' * 20):
            listed[-1][1] = f'{listed[-1][1]} {line.strip()}'.strip()
        elif f' {PROGRAM} ' not in line:
            rest.append(line)
    return listed, ' '.join(rest)


def _escape(words):
    return re.sub(r'([*`|\\])', r'\\\1', words)


def synopsis_lines():
    """RST of the usage."""
    return ['.. code-block:: text', '', *(f'   {line}' for line in synopsis())]


def option_lines():
    """RST of the options, and of what follows them."""
    listed, rest = options()
    lines = [f'.. program:: {PROGRAM}', '']
    for option, what in listed:
        lines += [f'.. option:: {option}', '', f'   {_escape(what)}', '']
    return [*lines, _escape(rest)]
