# SPDX-License-Identifier: Apache-2.0
"""YAML whose errors name the line: of its syntax, of keys that are there
twice, and of what a JSON schema refuses.
"""

import pathlib
import re
from typing import Any

import jsonschema
import yaml

from bench import errors


class _Loader(yaml.SafeLoader):
    """As YAML 1.2 has it: no key may be there twice, and what has colons is a
    text; YAML 1.1 takes 52:54:00:00:00:02 for a number of base 60.
    """

    yaml_implicit_resolvers = {
        first: [(tag, regexp) for tag, regexp in resolvers
                if tag.rpartition(':')[2] not in ('int', 'float')]
        for first, resolvers
        in yaml.SafeLoader.yaml_implicit_resolvers.items()}

    def construct_mapping(self, node: yaml.MappingNode,
                          deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f'{key.value!r} is there twice',
                    key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


# The core schema of YAML 1.2, section 10.3.2.
_Loader.add_implicit_resolver(
    'tag:yaml.org,2002:int', re.compile(r'[-+]?[0-9]+\Z'),
    list('-+0123456789'))
_Loader.add_implicit_resolver(
    'tag:yaml.org,2002:float',
    re.compile(r'[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z'),
    list('-+.0123456789'))


def load(path: pathlib.Path, schema: dict[str, Any]) -> Any:
    """A file's content.

    :raises errors.DeclarationError: it cannot be read, is no YAML, or is not
        what the schema describes.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.DeclarationError(path, 1, str(error)) from error
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.load(text, Loader=_Loader)  # noqa: S506
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise errors.DeclarationError(
            path, mark.line + 1 if mark else 1,
            error.problem or 'no YAML') from error
    except yaml.YAMLError as error:
        raise errors.DeclarationError(path, 1, str(error)) from error
    validator = jsonschema.Draft202012Validator(schema)
    found = jsonschema.exceptions.best_match(validator.iter_errors(content))
    if found is not None:
        raise errors.DeclarationError(
            path, _line(root, list(found.absolute_path), _unknown(found)),
            f'{_place(found)}{found.message}')
    return content


def line(path: pathlib.Path, *keys: str | int) -> int:
    """The line of what these keys lead to, in a file that load() took."""
    return _line(yaml.compose(path.read_text(), Loader=yaml.SafeLoader),
                 list(keys))


def _unknown(error: jsonschema.ValidationError) -> str | None:
    """The key that a schema does not know, if that is the error."""
    if error.validator != 'additionalProperties':
        return None
    return next((key for key in error.instance if isinstance(key, str)
                 and repr(key) in error.message), None)


def _place(error: jsonschema.ValidationError) -> str:
    where = '.'.join(map(str, error.absolute_path))
    return f'{where}: ' if where else ''


def _line(node: yaml.Node | None, keys: list[Any],
          unknown: str | None = None) -> int:
    number = node.start_mark.line + 1 if node is not None else 1
    for key in [*keys, *([unknown] if unknown else [])]:
        if isinstance(node, yaml.MappingNode):
            for name, value in node.value:
                if name.value == str(key):
                    number, node = name.start_mark.line + 1, value
                    break
        elif isinstance(node, yaml.SequenceNode):
            node = node.value[key]
            number = node.start_mark.line + 1
    return number
