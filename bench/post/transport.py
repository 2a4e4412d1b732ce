# SPDX-License-Identifier: Apache-2.0
"""Requests to a review system, with timeouts and retries."""

from collections.abc import Callable
import time
from typing import Any
from urllib import parse

import requests

from bench import errors

# Seconds to connect, and to wait for data.
TIMEOUT = (10, 30)
ATTEMPTS = 5
FIRST_WAIT_S = 1.0
WAIT_MAX_S = 60.0

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
                 login: tuple[str, str] | None = None,
                 sleep: Callable[[float], None] = time.sleep):
        parts = parse.urlsplit(base)
        if parts.scheme != 'https' and not (
                parts.scheme == 'http' and parts.hostname in _LOCAL):
            raise errors.BenchError(f'{base}: the URL has to begin with '
                                    f'https://')
        if parts.username or parts.password:
            raise errors.BenchError('a URL has no user or password: they '
                                    'would be shown')
        self._base = base.rstrip('/')
        self._sleep = sleep
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
        wait = FIRST_WAIT_S
        for left in range(ATTEMPTS - 1, -1, -1):
            try:
                answer = self._session.request(
                    method, self._base + path, json=body, timeout=TIMEOUT,
                    allow_redirects=False)
            except requests.ConnectTimeout as error:
                # Nothing has been sent yet.
                text, kind = str(error), errors.BenchError
            except requests.RequestException as error:
                text, kind = str(error), UncertainError
            else:
                if answer.status_code < 300:
                    return answer
                text, kind = _refusal(answer), errors.BenchError
                if answer.status_code >= 500:
                    kind = UncertainError
                elif answer.status_code != 429:
                    left = 0
                wait = max(wait, _retry_after(answer))
            if not left or (kind is UncertainError and not again):
                raise kind(f'{method} {self._base}{path}: {text}')
            self._sleep(min(wait, WAIT_MAX_S))
            wait *= 2
        raise AssertionError


def _retry_after(answer):
    text = answer.headers.get('Retry-After', '')
    return float(text) if text.isdecimal() else 0.0


def _refusal(answer):
    hint = _HINTS.get(answer.status_code)
    if 300 <= answer.status_code < 400:
        hint = 'it has moved; name the new URL'
    text = ' '.join(answer.text.split())[:_SHOWN]
    return ': '.join(filter(None, (
        f'status {answer.status_code}', hint, text)))
