# SPDX-License-Identifier: Apache-2.0
"""Configure a root to access package indexes like this machine."""

import os
import pathlib
import re
import shutil

from lab.packages import commands

# Files of the machine and of root: names, certificates, package managers.
FILES = ('/etc/resolv.conf', '/etc/hosts',
         '/etc/ssl/certs/ca-certificates.crt',
         '/etc/pip.conf', '/etc/uv/uv.toml')
OWN_FILES = ('.config/pip/pip.conf', '.pip/pip.conf', '.config/uv/uv.toml',
             '.cargo/config.toml', '.npmrc')
# Certificates that the machine's administrator has added.
CERTIFICATES = '/usr/local/share/ca-certificates'
VARIABLES = re.compile(
    r'(PIP|UV|NPM_CONFIG)_\w+|CARGO_(HTTP|NET|REGISTR|SOURCE)\w+'
    r'|(all|ftp|http|https|no)_proxy'
    r'|(CURL_|REQUESTS_)CA_BUNDLE|SSL_CERT_(FILE|DIR)|NODE_EXTRA_CA_CERTS',
    re.IGNORECASE)
APT = re.compile(r'Acquire::(http|https)::.*(Proxy|CaInfo|Verify)')


def copy(root):
    """Copy the machine's configuration to a root."""
    home = pathlib.Path.home()
    for source, target in (
            *((pathlib.Path(name), root / name[1:]) for name in FILES),
            *((home / name, root / 'root' / name) for name in OWN_FILES)):
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            shutil.copy(source, target)
    if os.path.isdir(CERTIFICATES):
        shutil.copytree(CERTIFICATES, root / CERTIFICATES[1:],
                        dirs_exist_ok=True)
    lines = [line for line in commands.run('apt-config', 'dump').splitlines()
             if APT.match(line)]
    (root / 'etc/apt/apt.conf.d/99machine').write_text(
        ''.join(f'{line}\n' for line in lines))


def variables():
    """Return relevant variables of the environment, as NAME=value."""
    return [f'{name}={value}' for name, value in sorted(os.environ.items())
            if VARIABLES.fullmatch(name)]
