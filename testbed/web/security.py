# SPDX-License-Identifier: Apache-2.0
"""Security settings of all answers and sessions."""

import flask
import flask_wtf.csrf
from werkzeug.middleware import proxy_fix

# Nothing from other sites, and no scripts at all.
POLICY = ("default-src 'none'; style-src 'self'; img-src 'self'; "
          "form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
HEADERS = {
    'Content-Security-Policy': POLICY,
    'X-Content-Type-Options': 'nosniff',
    'X-Frame-Options': 'DENY',
    # Needed to check the origin of requests by HTTPS.
    'Referrer-Policy': 'same-origin',
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Resource-Policy': 'same-origin',
    'Permissions-Policy': 'camera=(), geolocation=(), microphone=()',
}
FORM_BYTES_MAX = 64 << 10


def apply(app: flask.Flask, key: str) -> None:
    """Set up tokens of forms and headers, behind a TLS reverse proxy."""
    app.config.update(
        SECRET_KEY=key,
        SESSION_COOKIE_NAME='__Host-session',
        SESSION_COOKIE_HTTPONLY=True,
        # With Strict, a link from another site would start a new session, in
        # which forms of open pages have no valid token.
        SESSION_COOKIE_SAMESITE='Lax',
        SESSION_COOKIE_SECURE=True,
        MAX_CONTENT_LENGTH=FORM_BYTES_MAX,
        # Valid as long as the session.
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
