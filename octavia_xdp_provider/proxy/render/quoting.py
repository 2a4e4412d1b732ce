# SPDX-License-Identifier: Apache-2.0
"""How words are written into HAProxy's configuration.

All words of a configuration pass through ``quote``, whoever chose them, so
that a user's value is always one word, with the same bytes. The rules are in
HAProxy's Configuration Manual, 2.2 "Quoting and escaping": within single
quotes all characters stand for themselves; a quote and a backslash outside
them have to be escaped.
"""

import re
import unicodedata

# Characters without a meaning outside quotes. "$" has one within double
# quotes alone, but is quoted all the same.
_PLAIN = re.compile(r'[0-9A-Za-z_./:,@=+!()\[\]{}%-]+')


def quote(word: str) -> str:
    """Return a word as HAProxy's parser reads it.

    :raises ValueError: the word has a character that would end the line, or
        another control character. api/l7.py has refused these before.
    """
    for character in word:
        if unicodedata.category(character) in ('Cc', 'Cs'):
            raise ValueError(f'U+{ord(character):04X} in a configuration')
    if _PLAIN.fullmatch(word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


def line(*words: str | int) -> str:
    """Return a directive of a section."""
    return '    ' + heading(*words)


def heading(*words: str | int) -> str:
    """Return the first line of a section."""
    return ' '.join(quote(str(word)) for word in words)
