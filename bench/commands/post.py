# SPDX-License-Identifier: Apache-2.0
"""Posts a Markdown report to the review of a change."""

import argparse
import pathlib

HELP = 'send a report to a pull request, a Gerrit change or a file'


def add_arguments(parser: argparse.ArgumentParser) -> None:
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
    for parser_of_kind in github, gerrit:
        parser_of_kind.add_argument(
            '--token-file', type=pathlib.Path, metavar='FILE',
            help='in place of the environment')
    file = kinds.add_parser('file', help='a file')
    file.add_argument('path', type=pathlib.Path, metavar='FILE')


def run(arguments: argparse.Namespace) -> int:
    from bench import errors
    from bench.post import gerrit
    from bench.post import github
    from bench.post import secret
    from bench.results import atomic
    try:
        text = arguments.report.read_text(encoding='utf-8')
    except (OSError, UnicodeDecodeError) as error:
        raise errors.BenchError(f'{arguments.report}: {error}') from error
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
    return 0
