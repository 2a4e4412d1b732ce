# SPDX-License-Identifier: Apache-2.0
"""Posts comments on pull requests, by the REST API that GitHub, Gitea and
others share: https://docs.github.com/rest/issues/comments."""

import re

from bench import errors
from bench.post import transport

_REPOSITORY = re.compile(r'[\w.-]+/[\w.-]+')
_NAME = re.compile(r'[\w.-]+')
_PAGE = 100
PAGES_MAX = 50

# GitHub's limit of a comment.
LENGTH_MAX = 65536
_CUT = '\n\n(cut off: the whole report is in the artifacts of the job)\n'


class PullRequest:
    """:raises BenchError: the repository is not "owner/name"."""

    def __init__(self, url: str, repository: str, number: int,
                 token: str):
        if not _REPOSITORY.fullmatch(repository) or '..' in repository:
            raise errors.BenchError(f'{repository}: not a repository, which '
                                    f'is OWNER/NAME')
        if number < 1:
            raise errors.BenchError(f'{number}: not a pull request')
        self._path = f'/repos/{repository}'
        self._number = number
        self._transport = transport.Transport(url, {
            'Accept': 'application/vnd.github+json',
            'Authorization': f'Bearer {token}',
            'X-GitHub-Api-Version': '2022-11-28',
            'User-Agent': 'octavia-xdp-bench'})

    def post(self, text: str, name: str) -> str:
        """Replace our comment with this name, or add it; return its URL.

        :raises BenchError: the server refused it.
        """
        if not _NAME.fullmatch(name):
            raise errors.BenchError(f'{name}: names of comments are of '
                                    f'letters, digits, ".", "-"')
        marker = f'<!-- octavia-xdp-bench: {name} -->'
        body = {'body': f'{marker}\n{_fitting(text, len(marker) + 1)}'}
        for left in range(transport.RETRIES, -1, -1):
            number = self._find(marker)
            if number is not None:
                return self._send('PATCH', f'comments/{number}', body)
            try:
                return self._send('POST', f'{self._number}/comments', body,
                                  again=False)
            except transport.UncertainError:
                # It may exist now: look again to avoid a duplicate.
                if not left:
                    raise
        raise AssertionError

    def _send(self, method, path, body, **options):
        return _json(self._transport.send(
            method, f'{self._path}/issues/{path}', body, **options),
        ).get('html_url', '')

    def _find(self, marker):
        user = self._own_name()
        for page in range(1, PAGES_MAX + 1):
            comments = _json(self._transport.send(
                'GET', f'{self._path}/issues/{self._number}/comments'
                       f'?per_page={_PAGE}&page={page}'))
            for comment in comments:
                # Others may have quoted the marker.
                if (comment.get('body') or '').startswith(marker) and (
                        user is None
                        or comment.get('user', {}).get('login') == user):
                    return int(comment['id'])
            if len(comments) < _PAGE:
                return None
        raise errors.BenchError(f'pull request {self._number} has more than '
                                f'{PAGES_MAX * _PAGE} comments')

    def _own_name(self):
        """Return the user's name; None for tokens of jobs, without a user."""
        try:
            return _json(self._transport.send('GET', '/user')).get('login')
        except errors.BenchError as error:
            if 'status 403' in str(error):
                return None
            raise


def _fitting(text, used):
    if len(text) + used <= LENGTH_MAX:
        return text
    # Close a folded table, or everything below would be folded too.
    end = '\n\n</details>' * (text.count('<details>') > 0) + _CUT
    return text[:LENGTH_MAX - used - len(end)] + end


def _json(answer):
    try:
        return answer.json()
    except ValueError:
        raise errors.BenchError(
            f'{answer.url}: the answer is not JSON; is this the URL of the '
            f'API?') from None
