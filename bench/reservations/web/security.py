# SPDX-License-Identifier: Apache-2.0
"""What every answer and every session has."""

import datetime
import secrets

import flask
import flask_wtf.csrf
from werkzeug.middleware import proxy_fix

from bench.reservations import folder as folders
from bench.reservations.web import users
from octavia_xdp_provider.common import atomic_file

KEY = 'secret_key'
SESSION = datetime.timedelta(hours=12)
# Nothing is taken from elsewhere, and no script at all.
POLICY = ("default-src 'none'; style-src 'self'; img-src 'self'; "
          "form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
HEADERS = {
    'Content-Security-Policy': POLICY,
    'X-Content-Type-Options': 'nosniff',
    'X-Frame-Options': 'DENY',
    # Of requests by HTTPS the page's origin is checked by it.
    'Referrer-Policy': 'same-origin',
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Resource-Policy': 'same-origin',
    'Permissions-Policy': 'camera=(), geolocation=(), microphone=()',
}
FORM_BYTES_MAX = 64 << 10


def secret_key(folder: folders.Folder) -> str:
    """The key that signs sessions; made at the first use.

    :raises errors.BenchError: others can read it.
    """
    path = folder.path / KEY
    with folder.lock(KEY):
        if not path.exists():
            atomic_file.replace(path, secrets.token_hex(32).encode(), 0o600)
        return users.private(path)


def apply(app: flask.Flask, folder: folders.Folder, https: bool,
          proxy: bool) -> None:
    """Sessions, tokens of forms, headers.

    :param https: browsers reach the pages by HTTPS alone.
    :param proxy: by a reverse proxy, which says who they are.
    """
    app.config.update(
        SECRET_KEY=secret_key(folder),
        SESSION_COOKIE_NAME='__Host-session' if https else 'session',
        SESSION_COOKIE_HTTPONLY=True,
        # Strict would have a link from elsewhere end the session: it leads
        # to a form to log in, which begins another one.
        SESSION_COOKIE_SAMESITE='Lax',
        SESSION_COOKIE_SECURE=https,
        PERMANENT_SESSION_LIFETIME=SESSION,
        MAX_CONTENT_LENGTH=FORM_BYTES_MAX,
        # Of the session's length.
        WTF_CSRF_TIME_LIMIT=None,
    )
    flask_wtf.csrf.CSRFProtect(app)
    if proxy:
        app.wsgi_app = proxy_fix.ProxyFix(  # type: ignore[method-assign]
            app.wsgi_app, x_for=1, x_proto=1)

    @app.after_request
    def headers(response):
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if flask.request.endpoint != 'static':
            response.headers['Cache-Control'] = 'no-store'
        if https:
            response.headers['Strict-Transport-Security'] = \
                'max-age=31536000'
        return response
