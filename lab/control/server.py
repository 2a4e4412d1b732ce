# SPDX-License-Identifier: Apache-2.0
"""One gunicorn for each API server."""

import urllib.error
import urllib.request

from lab import namespaces
from lab import paths
from lab import processes

WORKER_FAILED = '[ERROR] Worker (pid'
# Longer than any client waits between two requests: one that uses a connection
# at the moment at which it is closed gets an error.
KEEP_ALIVE_S = 600
WORKERS = 1
# How long requests are waited for at the end.
GRACE_S = 2


def start(lab, name, maker, port, env, venv=paths.VENV, also=()):
    """Serve an application of lab.control.wsgi; wait until it answers.

    :param venv: the environment in which it is installed.
    :param also: paths of sockets at which it is served, too.
    """
    address = f'{paths.CONTROL_ADDRESS}:{port}'
    log = lab.logs / f'{name}.log'
    before = log.stat().st_size if log.exists() else 0
    processes.start(
        lab, paths.CONTROL, name,
        [venv / 'bin' / 'gunicorn', '--name', name, '--workers', WORKERS,
         '--threads', 8, '--timeout', 120, '--keep-alive', KEEP_ALIVE_S,
         '--graceful-timeout', GRACE_S, '--bind', address,
         *(f'--bind=unix:{path}' for path in also),
         '--no-control-socket', '--worker-tmp-dir', lab.run_directory,
         f'lab.control.wsgi:{maker}()'],
        env=env, cwd=paths.CHECKOUT, timeout=120,
        ready=lambda: _answers(lab, f'http://{address}/') or (
            _check_worker(name, log, before)))


def _check_worker(name, log, offset):
    # gunicorn starts a worker that fails again and again.
    with open(log, errors='replace') as file:
        file.seek(offset)
        text = file.read()
    if WORKER_FAILED in text:
        raise paths.LabError(f'{name} does not start; from {log}:\n'
                             f'{text.partition(WORKER_FAILED)[0][-4000:]}')


def _answers(lab, url):
    with namespaces.inside(lab, paths.CONTROL):
        try:
            urllib.request.urlopen(url, timeout=30).close()  # noqa: S310
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
    return True
