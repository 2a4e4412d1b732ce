# SPDX-License-Identifier: Apache-2.0
"""YAML as people write declarations."""

import re

import yaml

_FLOAT = 'tag:yaml.org,2002:float'
_INT = 'tag:yaml.org,2002:int'
# YAML 1.1 takes 22:30 for a number of base 60, and dates for objects.
_REPLACED = {_FLOAT, _INT, 'tag:yaml.org,2002:timestamp'}


class Loader(yaml.SafeLoader):
    """Numbers as in YAML 1.2, where 1e6 is one and 22:30 is none; no dates.

    on, off, yes and no are booleans, as they are in YAML 1.1.
    """


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers
            if tag not in _REPLACED]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()}
Loader.add_implicit_resolver(
    _INT, re.compile(r'^(?:[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+)$'),
    list('-+0123456789'))
Loader.add_implicit_resolver(
    _FLOAT, re.compile(r'^[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))'
                       r'(?:[eE][-+]?[0-9]+)?$'), list('-+.0123456789'))
