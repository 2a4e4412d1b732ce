# SPDX-License-Identifier: Apache-2.0
"""Requests to a review system, with timeouts and retries."""

from typing import Any
from urllib import parse

import requests
from requests import adapters
import urllib3

from bench import errors

# Seconds to connect, and to wait for data.
TIMEOUT = (10, 30)
RETRIES = 4
# Seconds; pauses double from this up to a minute.
PAUSE = 1.0

_LOCAL = ('localhost', '127.0.0.1', '::1')
_HINTS = {
    400: 'it does not understand the request',
    401: 'the token or password is wrong, or has expired',
    403: 'the token may not do this: it has to have the right to comment, or '
         'a limit of requests is reached',
    404: 'it does not exist, or the token may not see it',
    409: 'it has been closed or changed meanwhile',
    422: 'it refuses the text',
}
# Maximum of an answer's text in an error.
_SHOWN = 300


class UncertainError(errors.BenchError):
    """The request failed but may have taken effect."""


class Transport:
    """:param base: base URL of all requests.
    :raises BenchError: the URL would send a secret in the clear.
    """

    def __init__(self, base: str, headers: dict[str, str],
                 login: tuple[str, str] | None = None):
        parts = parse.urlsplit(base)
        if parts.scheme != 'https' and not (
                parts.scheme == 'http' and parts.hostname in _LOCAL):
            raise errors.BenchError(f'{base}: the URL has to begin with '
                                    f'https://')
        if parts.username or parts.password:
            raise errors.BenchError('a URL has no user or password: they '
                                    'would be shown')
        self._base = base.rstrip('/')
        self._session = requests.Session()
        # Ignore ~/.netrc and proxies of the environment.
        self._session.trust_env = False
        self._session.headers.update(headers)
        self._session.auth = login

    def send(self, method: str, path: str, body: Any = None, *,
             again: bool = True) -> requests.Response:
        """:param again: whether it may be sent twice (it is idempotent).
        :raises UncertainError: no answer, or a server error.
        :raises BenchError: the server refused it.
        """
        times = RETRIES if again else 0
        self._session.mount(self._base, adapters.HTTPAdapter(
            max_retries=urllib3.Retry(
                None, connect=RETRIES, read=times, other=times, status=RETRIES,
                status_forcelist=(429, *(range(500, 600) if again else ())),
                allowed_methods=None, backoff_factor=PAUSE, backoff_max=60,
                raise_on_status=False)))
        try:
            answer = self._session.request(
                method, self._base + path, json=body, timeout=TIMEOUT,
                allow_redirects=False)
        except requests.RequestException as error:
            raise UncertainError(
                f'{method} {self._base}{path}: {error}') from error
        if answer.status_code < 300:
            return answer
        kind = (UncertainError if answer.status_code >= 500
                else errors.BenchError)
        raise kind(f'{method} {self._base}{path}: {_refusal(answer)}')


def _refusal(answer):
    hint = _HINTS.get(answer.status_code)
    if 300 <= answer.status_code < 400:
        hint = 'it has moved; name the new URL'
    text = ' '.join(answer.text.split())[:_SHOWN]
    return ': '.join(filter(None, (
        f'status {answer.status_code}', hint, text)))
