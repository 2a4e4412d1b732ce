# SPDX-License-Identifier: Apache-2.0
"""What every answer and every session has."""

import flask
import flask_wtf.csrf
from werkzeug.middleware import proxy_fix

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


def apply(app: flask.Flask, key: str) -> None:
    """Tokens of forms, headers; a reverse proxy speaks TLS."""
    app.config.update(
        SECRET_KEY=key,
        SESSION_COOKIE_NAME='__Host-session',
        SESSION_COOKIE_HTTPONLY=True,
        # Strict would have a link from elsewhere begin another session, in
        # which forms of pages that are open have no token.
        SESSION_COOKIE_SAMESITE='Lax',
        SESSION_COOKIE_SECURE=True,
        MAX_CONTENT_LENGTH=FORM_BYTES_MAX,
        # Of the session's length.
        WTF_CSRF_TIME_LIMIT=None,
    )
    flask_wtf.csrf.CSRFProtect(app)
    app.wsgi_app = proxy_fix.ProxyFix(  # type: ignore[method-assign]
        app.wsgi_app, x_for=1, x_proto=1)

    @app.after_request
    def headers(response):
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if flask.request.endpoint != 'static':
            response.headers['Cache-Control'] = 'no-store'
        response.headers['Strict-Transport-Security'] = 'max-age=31536000'
        return response
