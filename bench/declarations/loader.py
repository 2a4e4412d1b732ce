# SPDX-License-Identifier: Apache-2.0
"""A YAML loader with the scalars that authors of declarations expect."""

import re

import yaml

_FLOAT = 'tag:yaml.org,2002:float'
_INT = 'tag:yaml.org,2002:int'
# YAML 1.1 reads 22:30 as a number of base 60, and dates as objects.
_REPLACED = {_FLOAT, _INT, 'tag:yaml.org,2002:timestamp'}


class Loader(yaml.SafeLoader):
    """Numbers as in YAML 1.2 (1e6 is a number, 22:30 is not), no dates.

    on, off, yes and no are booleans as in YAML 1.1.
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
