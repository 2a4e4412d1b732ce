# SPDX-License-Identifier: Apache-2.0
"""The commands: their arguments, and what each runs.

What only one command needs is imported by it.
"""

import argparse
from collections.abc import Callable
import fnmatch
import pathlib
import sys

_CHECKOUT = pathlib.Path(__file__).parents[1]
_OUTPUT = _CHECKOUT / 'build/bench'
_TABLES = (_CHECKOUT / 'doc/source/contributor/benchmarks/peers-tables.inc')
_RUN_HELP = 'number, "latest~1", or the beginning of a commit'

Parser = argparse.ArgumentParser
Add = Callable[..., Parser]


def add_all(choices) -> None:
    """Add a parser of each command, whose default "run" executes it.

    :param choices: what argparse's add_subparsers() returned.
    """
    def command(name, function, summary):
        parser = choices.add_parser(name, help=summary, description=summary)
        parser.set_defaults(run=function)
        return parser

    command('clean', _clean, 'remove namespaces, processes and files of runs '
            'that were killed')
    _add_compare(command)
    _add_export(command)
    parser = command('history', _history, 'list stored runs, or the figures '
                     'of a case over all of them')
    parser.add_argument('case', nargs='?', metavar='CASE',
                        help='its name, which may have * and ?; without one '
                             'runs are listed')
    _add_store(parser)
    parser = command('import', _import,
                     'add runs that "export" wrote to the store')
    parser.add_argument('files', nargs='+', type=pathlib.Path, metavar='FILE',
                        help='all of their runs are added, or none')
    _add_store(parser, suite=False)
    parser = command('list', _list,
                     'list suites, scenarios with their cases, and test beds')
    parser.add_argument('--cases', action='store_true',
                        help='with the cases of each scenario')
    _add_peers(command)
    _add_post(command)
    parser = command('report', _report, 'write report.html, report.md and '
                     'suite.json of a stored run')
    parser.add_argument('stored', nargs='?', default='latest', metavar='RUN',
                        help=f'its {_RUN_HELP} (latest)')
    _add_store(parser)
    parser.add_argument('--output', type=pathlib.Path, metavar='FOLDER',
                        default=_OUTPUT, help='where to (build/bench)')
    _add_run(command)


def _add_store(parser: Parser, suite: bool = True) -> None:
    if suite:
        parser.add_argument('--suite', metavar='NAME',
                            help='runs of this suite')
    parser.add_argument('--store', type=pathlib.Path, metavar='FILE',
                        help='of results (build/bench/results.sqlite)')


def _add_compare(command: Add) -> None:
    parser = command('compare', _compare, "say whether two runs or two "
                     "commits differ: changed, same, can't tell")
    for name in 'before', 'after':
        parser.add_argument(
            name, help='a run: its number, "latest", "latest~1", or the '
                       'beginning of a commit; with --rounds a git ref')
    parser.add_argument('--rounds', type=_positive, metavar='N',
                        help='run both commits in turn, this often')
    parser.add_argument('--suite', metavar='NAME',
                        help='of the runs; with --rounds what to run '
                             '(datapath)')
    for name, value in ('--only', 'CASE'), ('--set', 'KEY=VALUE'):
        parser.add_argument(name, action='append', default=[], metavar=value,
                            help='with --rounds: as for "run"')
    parser.add_argument('--threshold', type=_percent, metavar='PERCENT',
                        help='the smallest difference of interest (3)')
    _add_store(parser, suite=False)
    parser.add_argument('--html', type=pathlib.Path, metavar='FILE',
                        help='write a report')
    parser.add_argument('--markdown', type=pathlib.Path, metavar='FILE',
                        help='write what a pull request gets ("post")')
    parser.add_argument('--fail-on', choices=('worse', 'changed'),
                        help='exit with status 3 in this case')


def _add_export(command: Add) -> None:
    parser = command('export', _export, 'write stored runs as JSON')
    parser.add_argument('runs', nargs='*', metavar='RUN',
                        help=f'{_RUN_HELP}; without one all runs')
    _add_store(parser)
    parser.add_argument('--output', type=pathlib.Path, metavar='FILE',
                        help='where to (standard output)')


def _add_peers(command: Add) -> None:
    parser = command('peers', _peers, 'write the tables of the documentation '
                     'of peers, from stored runs')
    parser.add_argument('runs', nargs='*', metavar='RUN',
                        help=f'{_RUN_HELP}; of a case that several have, the '
                             "last one's (latest of suite peers)")
    _add_store(parser, suite=False)
    parser.add_argument('--output', type=pathlib.Path, metavar='FILE',
                        default=_TABLES,
                        help='where to (what the page includes)')


def _add_post(command: Add) -> None:
    parser = command('post', _post, 'send a report to a pull request, a '
                     'Gerrit change or a file')
    parser.add_argument('report', type=pathlib.Path, metavar='FILE',
                        help='Markdown, as "run", "report" and "compare '
                             '--markdown" write it')
    kinds = parser.add_subparsers(dest='kind', required=True, metavar='WHERE')
    github = kinds.add_parser(
        'github', help='a comment of a pull request: the one that is there '
                       'already is replaced',
        description='The token is read from GITHUB_TOKEN, or --token-file.')
    github.add_argument('repository', metavar='OWNER/NAME')
    github.add_argument('number', type=int, metavar='NUMBER')
    github.add_argument('--url', default='https://api.github.com',
                        help='of the API (https://api.github.com)')
    github.add_argument('--name', default='benchmarks',
                        help='tells several comments of one pull request '
                             'apart (benchmarks)')
    gerrit = kinds.add_parser(
        'gerrit', help='a message on a change',
        description='The password for HTTP is read from GERRIT_PASSWORD, or '
                    '--token-file.')
    gerrit.add_argument('change', metavar='CHANGE',
                        help='its number, or project~number')
    gerrit.add_argument('--url', required=True,
                        help='of the server, as https://review.example.org')
    gerrit.add_argument('--user', required=True)
    gerrit.add_argument('--revision', default='current',
                        help='of the change (current)')
    for kind in github, gerrit:
        kind.add_argument('--token-file', type=pathlib.Path, metavar='FILE',
                          help='in place of the environment')
    file = kinds.add_parser('file', help='a file')
    file.add_argument('path', type=pathlib.Path, metavar='FILE')


def _add_run(command: Add) -> None:
    parser = command('run', _run, 'run a suite or scenarios on test beds, and '
                     'report')
    what = parser.add_mutually_exclusive_group()
    what.add_argument('--suite', default='default', metavar='NAME',
                      help='by its name, or the path of its file (default)')
    what.add_argument('--scenario', action='append', metavar='NAME',
                      help='in place of a suite; may be given again')
    parser.add_argument('--only', action='append', metavar='CASE',
                        help='cases by their name, which may have * and ?; '
                             'may be given again')
    parser.add_argument('--rounds', type=_positive, metavar='N',
                        help='in place of what the declarations say')
    parser.add_argument('--set', action='append', metavar='KEY=VALUE',
                        default=[],
                        help='of all scenarios, as measure.seconds=5; may be '
                             'given again')
    parser.add_argument('--bed', metavar='NAME',
                        help='in place of those of the scenarios; or the '
                             'path of a file')
    parser.add_argument('--provider', metavar='NAME',
                        help='of beds, in place of the declared one: '
                             'namespaces, guest, ssh')
    parser.add_argument('--plan', action='store_true',
                        help='print what would run and how long it may take')
    _add_store(parser, suite=False)
    parser.add_argument('--output', type=pathlib.Path, metavar='FOLDER',
                        default=_OUTPUT,
                        help='of suite.json and the reports (build/bench)')


def _positive(text):
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(
            f'"{text}" is no number of rounds: it has to be 1 or more')
    return int(text)


def _percent(text):
    number = float(text)
    if not 0 < number <= 100:
        raise argparse.ArgumentTypeError('above 0, up to 100')
    return number / 100


def _run(arguments):
    from bench.engine import command
    return command.run(arguments)


def _compare(arguments):
    from bench.compare import command
    return command.run(arguments)


def _clean(_arguments):
    from bench.beds import runs
    for name in runs.clean():
        print(f'removed: run {name}, which has ended')
    for name in runs.living():
        print(f'left alone: run {name}, which is alive')


def _chosen(arguments, usual=None, suite=None):
    """Return the runs that the arguments name, else the usual one or all."""
    from bench.results import select
    from bench.results import store as stores
    store = stores.existing(arguments.store)
    names = arguments.runs or ([usual] if usual else [])
    if not names:
        return select.every(store, suite)
    return [select.choose(store, name, suite) for name in names]


def _export(arguments):
    from bench.results import atomic
    from bench.results import document
    chosen = _chosen(arguments, suite=arguments.suite)
    text = document.write(chosen)
    if arguments.output is None:
        sys.stdout.write(text)
    else:
        atomic.write(arguments.output, text)
        print(f'{arguments.output}: {len(chosen)} runs')


def _peers(arguments):
    from bench.report import peers
    from bench.results import atomic
    chosen = _chosen(arguments, 'latest', None if arguments.runs else 'peers')
    atomic.write(arguments.output, peers.text_of(chosen))
    print(arguments.output)


def _report(arguments):
    from bench.report import files
    from bench.results import select
    from bench.results import store as stores
    store = stores.existing(arguments.store)
    chosen = select.choose(store, arguments.stored, arguments.suite)
    for path in files.write(chosen, store, arguments.output):
        print(path)


def _import(arguments):
    from bench.results import document
    from bench.results import store as stores
    runs = [run for path in arguments.files
            for run in document.read(_text(path), str(path))]
    added = stores.Store(arguments.store or stores.DEFAULT).add(runs)
    print(f'{len(added)} runs added, {len(runs) - len(added)} were there')
    for each in added:
        print(f'run {each.id}: {each.suite} of {each.commit[:12]}')


def _text(path):
    from bench import errors
    try:
        return path.read_text(encoding='utf-8')
    except (OSError, UnicodeDecodeError) as error:
        raise errors.BenchError(f'{path}: {error}') from error


def _history(arguments):
    from bench import errors
    from bench.report import words
    from bench.results import select
    from bench.results import store as stores
    runs = select.every(stores.existing(arguments.store), arguments.suite)
    if arguments.case is None:
        head = 'run', 'started', 'suite', 'commit', 'cases', 'marked'
        rows = [(str(run.id), f'{run.started:%Y-%m-%d %H:%M}', run.suite,
                 run.commit[:12], str(len(run.cases)),
                 str(sum(bool(case.marks) for case in run.cases)))
                for run in runs]
    else:
        head = ('run', 'started', 'commit', 'case', 'software', 'figure',
                'marks')
        rows = [(str(run.id), f'{run.started:%Y-%m-%d %H:%M}',
                 run.commit[:12], case.name, case.software, words.case(case),
                 '; '.join(case.marks))
                for run in runs for case in run.cases
                if fnmatch.fnmatchcase(case.name, arguments.case)]
    if not rows:
        raise errors.BenchError(f'{arguments.case}: no run has such a case')
    widths = [max(map(len, column))
              for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        print('  '.join(cell.ljust(width) for cell, width
                        in zip(row, widths, strict=True)).rstrip())


def _list(arguments):
    from bench.declarations import definitions
    from bench.declarations import document
    from bench.scenarios import load
    for title, kind, key in (('Suites', definitions.SUITES, 'summary'),
                             ('Scenarios', definitions.SCENARIOS, 'summary'),
                             ('Test beds', definitions.BEDS, 'description')):
        print(title)
        for name in definitions.names(kind):
            parsed = document.read(definitions.find(kind, name), {})
            print(f'  {name:20} {parsed.data.get(key, "")}')
            if arguments.cases and kind == definitions.SCENARIOS:
                for variant in load.scenario(name):
                    print(f'    {variant.name}')


def _post(arguments):
    from bench import errors
    from bench.post import gerrit
    from bench.post import github
    from bench.post import secret
    from bench.results import atomic
    text = _text(arguments.report)
    if not text.strip():
        raise errors.BenchError(f'{arguments.report}: it is empty')
    if arguments.kind == 'file':
        atomic.write(arguments.path, text)
        print(arguments.path)
    elif arguments.kind == 'github':
        token = secret.read('GITHUB_TOKEN', arguments.token_file)
        print(github.PullRequest(
            arguments.url, arguments.repository, arguments.number, token,
        ).post(text, arguments.name))
    else:
        password = secret.read('GERRIT_PASSWORD', arguments.token_file)
        gerrit.post(arguments.url, arguments.change, arguments.revision,
                    arguments.user, password, text)
        print(f'message on change {arguments.change}')
