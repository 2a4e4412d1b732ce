# SPDX-License-Identifier: Apache-2.0
"""Reads YAML files and checks them against a schema; errors name the line.

Used for beds, scenarios and suites.
"""

from collections.abc import Mapping
import dataclasses
import pathlib
from typing import Any

import yaml

from bench import errors
from bench.declarations import loader
from bench.declarations import schemas

# Far above any declaration, but stops files whose aliases expand endlessly.
VALUES_MAX = 100_000
_TAGS = ('tag:yaml.org,2002:map', 'tag:yaml.org,2002:seq')
_MERGE = 'tag:yaml.org,2002:merge'


@dataclasses.dataclass(frozen=True)
class Document:
    """The contents of a file with line numbers.

    :ivar data: mappings, lists, texts, numbers, booleans and None.
    :ivar lines: line of each key and item, by its path within `data`.
    """

    path: pathlib.Path
    data: Any
    lines: Mapping[tuple[str | int, ...], int]

    def line(self, *keys: str | int) -> int:
        """Return the line of a value, or of its nearest declared parent."""
        while keys not in self.lines:
            keys = keys[:-1]
        return self.lines[keys]

    def error(self, text: str, *keys: str | int) -> errors.DeclarationError:
        """Return an error about the value at these keys, to be raised."""
        return errors.DeclarationError(self.path, self.line(*keys), text)


def read(path: pathlib.Path, schema: Mapping[str, Any]) -> Document:
    """Read a file.

    :param schema: JSON schema, draft 2020-12. The `description` beside a
        `pattern` is used in errors. Formats: see schemas.py.
    :raises errors.DeclarationError: it is no YAML, has duplicate keys, or
        violates the schema. The text has a line for each mistake.
    :raises errors.BenchError: it cannot be read.
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise errors.BenchError(
            f'{path} cannot be read: {error.strerror}') from None
    except UnicodeDecodeError as error:
        raise errors.BenchError(f'{path} cannot be read: {error}') from None
    return parse(text, path, schema)


def parse(text: str, path: pathlib.Path,
          schema: Mapping[str, Any]) -> Document:
    """Like read(), for a text that is not in the file yet."""
    document = _compose(text, path)
    mistakes = sorted((document.line(*keys), message)
                      for keys, message in schemas.mistakes(document.data,
                                                            schema))
    if mistakes:
        (line, message), *others = dict.fromkeys(mistakes)
        raise errors.DeclarationError(path, line, '\n'.join((
            message, *(f'{path}:{line}: {message}'
                       for line, message in others))))
    return document


def _compose(text, path):
    try:
        reader = loader.Loader(text)
        node = reader.get_single_node()
        if node is None:
            raise errors.DeclarationError(path, 1, 'nothing is declared')
        lines: dict[tuple[str | int, ...], int] = {(): _line(node)}
        data = _Construction(reader, path, lines).value(node, (), ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise errors.DeclarationError(
            path, mark.line + 1 if mark else 1,
            f'no YAML: {error.problem or error.context}') from None
    except yaml.YAMLError as error:  # Characters that YAML does not allow.
        raise errors.DeclarationError(path, 1, f'no YAML: {error}') from None
    return Document(path, data, lines)


class _Construction:
    """Constructs plain data from nodes and records their lines."""

    def __init__(self, reader, path, lines):
        self.reader, self.path, self.lines = reader, path, lines
        self.checked = set()

    def value(self, node, keys, above):
        if node in above:
            raise self._error(node, 'an alias of what it is within')
        if len(self.lines) > VALUES_MAX:
            raise self._error(node, f'more than {VALUES_MAX} values, with '
                              'those that aliases stand for')
        if not isinstance(node, yaml.ScalarNode) and node.tag not in _TAGS:
            raise self._error(node, f'no YAML: unknown tag {node.tag}')
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, keys, (*above, node))
        if isinstance(node, yaml.SequenceNode):
            items = []
            for index, item in enumerate(node.value):
                self.lines[(*keys, index)] = _line(item)
                items.append(self.value(item, (*keys, index),
                                        (*above, node)))
            return items
        return self.reader.construct_object(node)

    def _mapping(self, node, keys, above):
        if node not in self.checked:  # Aliases lead here repeatedly.
            self.checked.add(node)
            self._refuse_duplicates(node)
            # Puts keys merged by "<<" first, so that own keys replace them.
            self.reader.flatten_mapping(node)
        mapping = {}
        for key_node, value_node in node.value:
            key = self.reader.construct_object(key_node)
            self.lines[(*keys, key)] = _line(key_node)
            mapping[key] = self.value(value_node, (*keys, key), above)
        return mapping

    def _refuse_duplicates(self, node):
        seen: dict[str, int] = {}
        for key_node, _value in node.value:
            key = key_node.value
            if key_node.tag == _MERGE:
                continue
            if not isinstance(key_node, yaml.ScalarNode) or not isinstance(
                    self.reader.construct_object(key_node), str):
                raise self._error(key_node, f'the key "{key}" is no text; '
                                  'put it in quotes')
            if key in seen:
                raise self._error(key_node, f'"{key}" is declared a second '
                                  f'time; first in line {seen[key]}')
            seen[key] = _line(key_node)

    def _error(self, node, text):
        return errors.DeclarationError(self.path, _line(node), text)


def _line(node):
    return node.start_mark.line + 1
