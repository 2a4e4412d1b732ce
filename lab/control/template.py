# SPDX-License-Identifier: Apache-2.0
"""A copy of filled databases, so that only the first start fills them.

The template's name is a hash of everything that determines their content: the
locked versions, the script that fills them, the service URLs, the migrations
of the controllers' database.
"""

import fcntl
import hashlib
import json
import shutil

from lab import cloud
from lab import paths
from lab.control import keystone
from lab.control import mariadb
from lab.control import secret

DIRECTORY = paths.BUILD / 'lab-template'
MAKERS = ('constraints.txt', 'lab/cloud.py', 'lab/control/mariadb.py')
MIGRATIONS = 'octavia_xdp_provider/controller/store/migrations/versions/*.py'


def claim():
    """Decide whether this lab has to create the template.

    Of labs that start at the same time one creates it, the others wait.

    :returns: None if there is a template to restore; else an open file for
        `save`, with a lock that ends with this process.
    """
    DIRECTORY.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = open(DIRECTORY / 'lock', 'w')  # noqa: SIM115, returned
    if not _path().is_dir():
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _path().is_dir():
            return lock
    lock.close()
    return None


def restore(lab):
    """Copy the databases and passwords of the template to this lab."""
    template = _path()
    secret.restore(lab, json.loads((template / 'secrets.json').read_text()))
    shutil.copytree(template / 'mariadb', mariadb.data_directory(lab))
    for name in keystone.KEYS:
        shutil.copytree(template / name, _keystone(lab) / name)


def save(lab, claimed):
    """Create the template from a lab whose database server is stopped."""
    with claimed:
        target = _path()
        for other in DIRECTORY.iterdir():
            if other.is_dir() and other != target:
                shutil.rmtree(other)
        new = DIRECTORY / 'new'
        shutil.copytree(mariadb.data_directory(lab), new / 'mariadb')
        for name in keystone.KEYS:
            shutil.copytree(_keystone(lab) / name, new / name)
        (new / 'secrets.json').write_text(json.dumps(secret.all_of(lab)))
        new.rename(target)


def _path():
    content = hashlib.sha256()
    for path in [*(paths.CHECKOUT / name for name in MAKERS),
                 *sorted(paths.CHECKOUT.glob(MIGRATIONS))]:
        content.update(path.read_bytes())
    content.update(repr(cloud.content()).encode())
    return DIRECTORY / content.hexdigest()[:16]


def _keystone(lab):
    return lab.host_directory(paths.CONTROL) / 'keystone'
