# SPDX-License-Identifier: Apache-2.0
"""A parser of HAProxy's configuration, from its manual alone.

Configuration Manual, 2.1 "Configuration file format" and 2.2 "Quoting and
escaping": words are separated by spaces and tabs; a backslash outside quotes
makes the next character (blank, "#", backslash, quotes, "n", "r", "t" or
"xHH") stand for itself or for a control character; within single quotes
nothing has a meaning; within double quotes backslashes and "$" have; "#"
outside quotes begins a comment, anywhere.
"""

SECTIONS = ('global', 'defaults', 'frontend', 'backend', 'listen', 'peers')
_CONTROL = {'n': '\n', 'r': '\r', 't': '\t'}


class Malformed(Exception):
    """A line that HAProxy would refuse."""


def words(line):
    """Return the words of a line."""
    result = []
    word = None
    quote = None
    position = 0
    while position < len(line):
        character = line[position]
        position += 1
        if quote == "'" and character != "'":
            word += character
        elif character == '\\':
            text, used = _escaped(line[position:], quote)
            word = (word or '') + text
            position += used
        elif character in '\'"' and quote in (None, character):
            quote = None if quote else character
            word = word or ''
        elif quote:
            if character == '$':
                raise Malformed('a variable')
            word += character
        elif character == '#':
            break
        elif character in ' \t':
            if word is not None:
                result.append(word)
            word = None
        else:
            word = (word or '') + character
    if quote:
        raise Malformed(f'unfinished {quote}')
    return result if word is None else [*result, word]


def _escaped(rest, quote):
    """Return what follows a backslash stands for, and its length."""
    if not rest:
        raise Malformed('a backslash at the end')
    if rest[0] in ('\\', '"', '$') or (not quote and rest[0] in ' #\''):
        return rest[0], 1
    if not quote and rest[0] in _CONTROL:
        return _CONTROL[rest[0]], 1
    if not quote and rest[0] == 'x':
        return chr(int(rest[1:3], 16)), 3
    return '\\', 0


def sections(text):
    """Return lists of words of each section's lines, by the section's words:
    ``('backend', 'name')``."""
    result = {}
    lines = None
    for line in text.split('\n'):
        parts = words(line)
        if not parts:
            continue
        if parts[0] in SECTIONS:
            lines = result.setdefault(tuple(parts), [])
        else:
            lines.append(parts)
    return result
