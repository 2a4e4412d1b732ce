# SPDX-License-Identifier: Apache-2.0
"""API servers: one gunicorn for each."""

import urllib.error
import urllib.request

from lab import namespaces
from lab import paths
from lab import processes

WORKER_FAILED = '[ERROR] Worker (pid'
# Longer than any client waits between two requests: a client that uses a
# connection while the server closes it gets an error.
KEEP_ALIVE_S = 600
WORKERS = 1
# Time for requests to end when the server is stopped.
GRACE_S = 2


def start(lab, name, maker, port, env, venv=paths.VENV, also=()):
    """Serve an application of lab.control.wsgi, and wait until it answers.

    :param venv: the environment in which it is installed.
    :param also: paths of additional sockets.
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
    # gunicorn restarts a failing worker without end.
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
