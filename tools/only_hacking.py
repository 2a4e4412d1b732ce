# SPDX-License-Identifier: Apache-2.0
"""flake8 with hacking's checks and no others; its arguments are flake8's.

flake8 always runs pycodestyle and pyflakes as well, and throws away what they
find if only hacking's is asked for. ruff has their checks.
"""

import sys

from flake8.main import cli
from flake8.plugins import finder

_find_plugins = finder.find_plugins


def find_plugins(*arguments):
    return [plugin for plugin in _find_plugins(*arguments)
            if plugin.package not in ('pycodestyle', 'pyflakes')]


if __name__ == '__main__':
    finder.find_plugins = find_plugins
    sys.exit(cli.main())
