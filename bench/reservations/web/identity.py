# SPDX-License-Identifier: Apache-2.0
"""Who sends a request: a session, or what a reverse proxy says."""

import functools

import flask

from bench import errors
from bench.reservations import words
from bench.reservations.web import forms
from bench.reservations.web import throttle
from bench.reservations.web import users

_NAME, _STAMP = 'name', 'stamp'


class Identity:
    """Of one application.

    :param header: of requests, with the user's name; a reverse proxy has
        checked who they are and replaced it. None: by name and password.
    """

    def __init__(self, folder, site, header):
        self._users = users.Users(folder)
        self._throttle = throttle.Throttle(site)
        self._header = header

    def user(self) -> str | None:
        """The name of who is logged in."""
        if self._header is not None:
            try:
                return words.owner(flask.request.headers.get(
                    self._header, ''))
            except errors.BenchError:
                return None
        name = flask.session.get(_NAME)
        # A session ends with the user and with the password.
        if name is None or self._users.stamp(name) != \
                flask.session.get(_STAMP):
            return None
        return name

    def needed(self, view):
        """Only for who is logged in; others are sent to log in."""
        @functools.wraps(view)
        def checked(*arguments, **more):
            if self.user() is None:
                if self._header is not None:
                    flask.abort(401)
                return flask.redirect(flask.url_for('login'))
            return view(*arguments, **more)
        return checked

    def login(self):
        """The form, and what it sends."""
        if self._header is not None:
            flask.abort(404)
        form = forms.Login()
        if not form.validate_on_submit():
            return flask.render_template('login.html', form=form)
        attempt = self._throttle.begin(form.name.data,
                                       flask.request.remote_addr or '')
        if attempt is None:
            flask.flash('Too many attempts. Try again in a quarter of an '
                        'hour.', 'error')
            return (flask.render_template('login.html', form=form), 429,
                    {'Retry-After': str(throttle.WINDOW_S)})
        if not self._users.check(form.name.data, form.password.data):
            flask.flash('Name or password is wrong.', 'error')
            return flask.render_template('login.html', form=form), 403
        self._throttle.right(attempt)
        # Nothing of the session before is in that of the user.
        flask.session.clear()
        flask.session.permanent = True
        flask.session[_NAME] = form.name.data
        flask.session[_STAMP] = self._users.stamp(form.name.data)
        return flask.redirect(flask.url_for('index'))

    def logout(self):
        """End the session."""
        flask.session.clear()
        return flask.redirect(flask.url_for('index'))
