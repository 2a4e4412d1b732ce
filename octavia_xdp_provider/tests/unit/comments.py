# SPDX-License-Identifier: Apache-2.0
"""Comments and docstrings of the tree's files, read from their text.

What each kind of file has is told by its name, or by a first line that is a
comment: so begin scripts, Makefiles, units, and files with settings.
"""

import functools
import os
import pathlib
import re

import octavia_xdp_provider

ROOT = pathlib.Path(octavia_xdp_provider.__file__).parent.parent

_PYTHON = re.compile(
    r'''(?P<prefix>^[ \t]*)?[rRbBuUfF]{0,2}
    (?:(?P<quotes>"""|\'\'\')(?P<text>(?:\\.|[^\\])*?)(?P=quotes)
       |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<comment>\#[^\n]*)''', re.DOTALL | re.MULTILINE | re.VERBOSE)
# Strings are matched to be passed over: in Rust they may be of several lines.
_C = re.compile(
    r'''r(?P<hashes>\#*)".*?"(?P=hashes)
    |"(?:\\.|[^"\\])*"|'(?:\\[^'\n]+|[^'\\\n])'
    |(?P<comment>//[^\n]*|/\*.*?\*/)''', re.DOTALL | re.VERBOSE)
_HASH = re.compile(r'(?:^|(?<=\s))(?P<comment>#[^\n]*)', re.MULTILINE)
# What begins a line of a comment that goes on.
_MARGIN = re.compile(r'\n[ \t]*(?:\*(?!/)|//[/!]?|#)?')


def _python(text):
    for match in _PYTHON.finditer(text):
        if match['comment']:
            yield match['comment']
        elif match['text'] and match['prefix'] is not None:
            yield match['text']


def _marked(pattern, text):
    return (match['comment'] for match in pattern.finditer(text)
            if match['comment'])


_c = functools.partial(_marked, _C)
_hash = functools.partial(_marked, _HASH)
_KINDS = {'.py': _python, '.c': _c, '.h': _c, '.rs': _c, '.S': _c, '.go': _c,
          '.dot': _c}
# Without comments, or with a check of their own.
_OTHERS = ('.rst', '.json', '.png', '.svg', '.html', '.js', '.css')


def paths():
    """All files, relative to the root: none that a build or Git has made."""
    found = []
    for directory, directories, names in os.walk(ROOT):
        directories[:] = [
            name for name in directories
            if name not in ('build', 'target', '__pycache__', '.git')
            and not name.endswith(('_cache', '.egg-info'))]
        found += [str(pathlib.Path(directory, name).relative_to(ROOT))
                  for name in names]
    return sorted(found)


def comments(name, text):
    """The comments and docstrings of a file, each with its lines joined."""
    suffix = pathlib.PurePath(name).suffix
    if suffix in _OTHERS:
        return
    kind = _KINDS.get(suffix)
    if not kind and text.startswith('#'):
        first = text[:text.index('\n')]
        kind = _python if re.match('#!.*python', first) else _hash
    for comment in kind(text) if kind else ():
        yield _MARGIN.sub('\n', comment)
