# SPDX-License-Identifier: Apache-2.0
"""Lists runs, or the figures of a case in each of them."""

import argparse
import fnmatch

from bench import commands

HELP = 'list stored runs, or the figures of a case over all of them'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('case', nargs='?', metavar='CASE',
                        help='its name, which may have * and ?; without one '
                             'runs are listed')
    commands.store(parser)


def run(arguments: argparse.Namespace) -> int:
    from bench import errors
    from bench.results import select
    from bench.results import store as stores
    store = stores.existing(arguments.store)
    runs = select.every(store, arguments.suite)
    if arguments.case is None:
        _table(('run', 'started', 'suite', 'commit', 'cases', 'marked'),
               [_run(stored) for stored in runs])
        return 0
    rows = [row for stored in runs for row in _cases(stored, arguments.case)]
    if not rows:
        raise errors.BenchError(f'{arguments.case}: no run has such a case')
    _table(('run', 'started', 'commit', 'case', 'software', 'figure',
            'marks'), rows)
    return 0


def _run(found):
    marked = sum(bool(case.marks) for case in found.cases)
    return (str(found.id), _time(found), found.suite, found.commit[:12],
            str(len(found.cases)), str(marked))


def _cases(found, pattern):
    from bench.report import words
    for case in found.cases:
        if fnmatch.fnmatchcase(case.name, pattern):
            yield (str(found.id), _time(found), found.commit[:12], case.name,
                   case.software, words.case(case), '; '.join(case.marks))


def _time(found):
    return f'{found.started:%Y-%m-%d %H:%M}'


def _table(head, rows):
    widths = [max(len(row[column]) for row in (head, *rows))
              for column in range(len(head))]
    for row in (head, *rows):
        print('  '.join(cell.ljust(width) for cell, width
                        in zip(row, widths, strict=True)).rstrip())
