# SPDX-License-Identifier: Apache-2.0
"""The application: pages, and forms for changes.

Changes are sent by POST, with the form's token.
"""

import datetime

import flask
import flask_wtf.csrf
import sqlalchemy

from bench import errors
from testbed import folder as folders
from testbed import repository
from testbed import runs
from testbed import sync
from testbed import words
from testbed.web import background
from testbed.web import forms
from testbed.web import security

LOG_LAST = 200


def create(folder: folders.Folder, key: str, header: str) -> flask.Flask:
    """Return the application of a folder.

    :param key: signs tokens of forms and flashed messages.
    :param header: request header with the user's name. The reverse proxy must
        authenticate users and replace the header of clients.
    :raises errors.BenchError: the folder cannot be used.
    """
    app = flask.Flask(__name__)
    folder.make()

    # First of all, so that unknown users get this error before others.
    @app.before_request
    def find_user():
        if flask.request.endpoint == 'static':
            return
        try:
            flask.g.user = words.owner(flask.request.headers.get(header, ''))
        except errors.BenchError as error:
            flask.abort(401, f'The proxy before these pages has to say in '
                        f'the header {header} who sends a request: {error}')

    security.apply(app, key)
    pages = _Pages(folder, folder.leases())
    app.jinja_env.filters['time'] = words.time
    app.jinja_env.filters['iso'] = lambda seconds: \
        datetime.datetime.fromtimestamp(
            seconds, datetime.timezone.utc).isoformat()
    app.context_processor(_for_all_pages)
    for path, view, methods in (
            ('/', pages.index, ['GET']),
            ('/reserve', pages.reserve, ['POST']),
            ('/leases/<int:number>/renew', pages.renew, ['POST']),
            ('/leases/<int:number>/release', pages.release, ['POST']),
            ('/diff', pages.diff, ['GET']),
            ('/sync', pages.sync, ['GET']),
            ('/sync/start', pages.start_sync, ['POST']),
            ('/log', pages.log, ['GET'])):
        app.add_url_rule(path, view.__name__, view, methods=methods)
    _show_errors(app)
    return app


def _for_all_pages():
    """Return variables of all templates: the user, and a button with a token.

    A token starts a session, so unknown users get none.
    """
    user = flask.g.get('user')
    # Without the submitted data, which may be the problem.
    return {'user': user,
            'button': forms.Button(formdata=None) if user else None}


class _Pages:
    def __init__(self, folder, site):
        self._folder = folder
        self._site = site
        self._runs = runs.Runs(site)
        self._repository = repository.Repository(folder)

    def index(self):
        """Show machines and their leases."""
        known = self._folder.inventory()
        form = forms.Reserve()
        form.offer(known)
        return self._index(known, form)

    def _index(self, known, form):
        active = self._site.active()
        renew = forms.Renew(formdata=None)
        renew.offer(known)
        return flask.render_template(
            'index.html', form=form, renew=renew, known=known, active=active,
            by_machine={name: lease for lease in active
                        for name in lease.machines},
            applied=self._repository.is_applied(), run=self._last_run())

    def reserve(self):
        """Reserve machines."""
        known = self._folder.inventory()
        form = forms.Reserve()
        form.offer(known)
        if not form.validate():
            return self._index(known, form), 400
        try:
            lease = self._site.reserve(
                flask.g.user, form.machines.data, form.hours.data,
                form.purpose.data, known, form.kernel.data or None)
        except errors.BenchError as error:
            flask.flash(f'Not reserved: {error}', 'error')
            return self._index(known, form), 409
        self._follow(known, f'Lease {lease.number} is yours until '
                     f'{words.time(lease.expires)}.')
        return flask.redirect(flask.url_for('index'))

    def renew(self, number):
        """Extend a lease."""
        known = self._folder.inventory()
        form = forms.Renew()
        form.offer(known)
        if form.validate():
            lease = self._site.renew(number, flask.g.user,
                                     form.hours.data, known)
            flask.flash(f'Lease {number} is yours until '
                        f'{words.time(lease.expires)}.', 'done')
        else:
            flask.flash('Not renewed: ' + ' '.join(form.hours.errors),
                        'error')
        return flask.redirect(flask.url_for('index'))

    def release(self, number):
        """End a lease."""
        self._site.release(number, flask.g.user)
        self._follow(self._folder.inventory(), f'Lease {number} has ended.')
        return flask.redirect(flask.url_for('index'))

    def _follow(self, known, text):
        self._repository.follow(self._site, known, flask.g.user)
        flask.flash(f'{text} Sync to apply it.', 'done')

    def diff(self):
        """Show what a sync would change."""
        self._repository.follow(self._site, self._folder.inventory(),
                                flask.g.user)
        return flask.render_template(
            'diff.html', lines=self._repository.diff().splitlines())

    def sync(self):
        """Show the state of the last sync."""
        return flask.render_template('sync.html', run=self._last_run())

    def start_sync(self):
        """Start a sync in the background."""
        background.start(self._folder, self._runs, flask.g.user)
        return flask.redirect(flask.url_for('sync'))

    def _last_run(self):
        return self._runs.last(sync.running(self._folder))

    def log(self):
        """Show the log."""
        return flask.render_template(
            'log.html', entries=self._site.log(LOG_LAST)[::-1],
            last=LOG_LAST)


def _show_errors(app):
    @app.errorhandler(flask_wtf.csrf.CSRFError)
    def refused(error):
        return flask.render_template(
            'error.html', title='Refused', text=f'{error.description} Load '
            'the page again, and send the form from there.'), 400

    @app.errorhandler(errors.BenchError)
    def failed(error):
        return flask.render_template('error.html', title='Not done',
                                     text=str(error)), 409

    @app.errorhandler(sqlalchemy.exc.OperationalError)
    def busy(error):
        return flask.render_template(
            'error.html', title='Not done',
            text=f'The database does not answer: {error.orig}'), 503

    @app.errorhandler(404)
    @app.errorhandler(405)
    @app.errorhandler(401)
    @app.errorhandler(413)
    def http(error):
        return flask.render_template('error.html', title=error.name,
                                     text=error.description), error.code
