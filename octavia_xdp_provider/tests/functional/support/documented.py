# SPDX-License-Identifier: Apache-2.0
"""The commands that the documents tell readers to type."""

import re
import shlex

from octavia_xdp_provider.tests.unit import documents

# The page that all others build on.
FIRST = documents.SOURCE / 'user/first-steps.rst'

_COMMAND = re.compile(r'^ +(?:\$ )?(?:\S+ )*?openstack (loadbalancer .*)',
                      re.MULTILINE)
_INLINE = re.compile(r'``openstack\s+(loadbalancer\s+[^`]+)``')
_FLAVOR_DATA = re.compile(r"^ +--flavor-data '(.*)'$", re.MULTILINE)


def commands(text):
    """The words of each command of a page, in their order."""
    whole = re.sub(r'\\\n +', ' ', text)
    return [shlex.split(line) for line in _COMMAND.findall(whole)]


def named_commands(text):
    """The words of commands that are named amid a text."""
    return [words.split() for words in _INLINE.findall(text)]


def flavor_data(text):
    """Examples of what a flavor may say."""
    return _FLAVOR_DATA.findall(text)


def pages():
    """Those that have commands, or data of flavors."""
    for page in documents.pages():
        text = page.read_text()
        if commands(text) or flavor_data(text):
            yield page
