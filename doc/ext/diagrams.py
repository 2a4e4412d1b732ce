# SPDX-License-Identifier: Apache-2.0
"""Diagrams, which Graphviz draws from the .dot files of the documents."""

import shutil
import sys

# Builders whose pages have the diagrams; manual pages have none.
_FORMATS = ('html', 'latex')


def missing(builder_format, program):
    """What a build of this format lacks, in words; or None.

    :param program: that of ``graphviz_dot`` in conf.py.
    """
    if builder_format not in _FORMATS or shutil.which(program):
        return None
    return (f'The program "{program}" is missing, which draws the diagrams. '
            'Install Debian\'s package graphviz; "tools/setup packages" '
            'does.')


def _check(app):
    # Sphinx would name it once for each diagram, after it has read all pages;
    # and it adds pages of its own to an error.
    problem = missing(app.builder.format, app.config.graphviz_dot)
    if problem:
        sys.exit(problem)


def setup(app):
    app.connect('builder-inited', _check)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
