# SPDX-License-Identifier: Apache-2.0
"""Loads scenarios and suites from their files."""

from collections.abc import Mapping
from collections.abc import Sequence
import copy
import fnmatch
import pathlib
from typing import Any

from bench.declarations import definitions
from bench.declarations import document as documents
from bench.declarations import schemas
from bench.scenarios import matrix
from bench.scenarios import model
from bench.scenarios import rules
from bench.scenarios import schema

DEFAULT_BED = 'one-node'


def suite(name: str, bed: str | None = None,
          changes: Mapping[str, Any] | None = None) -> model.Suite:
    """Return a suite with all its variants.

    :param name: a name or the path of a file.
    :param bed: overrides the beds that declarations name.
    :param changes: values by the path of their key, for all scenarios.
    :raises BenchError: a declaration is invalid; with its line.
    """
    path = definitions.find(definitions.SUITES, name)
    parsed = documents.read(path, schema.SUITE)
    data = parsed.data
    variants: list[model.Variant] = []
    for number, part in enumerate(data['scenarios']):
        if isinstance(part, str):
            part = {'scenario': part}
        try:
            variants += _part(part, path, data, bed, changes or {})
        except KeyError as error:
            raise parsed.error(
                f'"set": there is nothing at {error.args[0]}', 'scenarios',
                number) from None
        except LookupError as error:
            raise parsed.error(str(error), 'scenarios', number) from None
    names = [variant.name for variant in variants]
    for name in names:
        if names.count(name) > 1:
            raise parsed.error(f'{name} is there twice', 'scenarios')
    return model.Suite(path.stem, data['summary'], data.get('minutes'),
                       tuple(variants))


def scenario(name: str, *, beside: pathlib.Path | None = None,
             changes: Mapping[str, Any] | None = None,
             bed: str | None = None, default_bed: str = DEFAULT_BED,
             ) -> list[model.Variant]:
    """Return all variants of a scenario.

    :param changes: values by the path of their key, from a suite.
    :raises BenchError: the declaration is invalid; with its line.
    :raises KeyError: a path of `changes` leads nowhere.
    """
    path = definitions.find(definitions.SCENARIOS, name, beside)
    parsed = documents.read(path, schema.SCENARIO)
    data = copy.deepcopy(parsed.data)
    for where, value in (changes or {}).items():
        matrix.change(data, where, value)
    rows = data.pop('matrix', {})
    left_out = data.pop('leave_out', [])
    try:
        cells = list(matrix.cells(rows))
    except ValueError as error:
        raise parsed.error(str(error), 'matrix') from None
    made = []
    for cell in cells:
        full = '/'.join([path.stem, *(choice.text for choice in cell)])
        if any(fnmatch.fnmatch(full, f'{path.stem}/{pattern}')
               for pattern in left_out):
            continue
        made.append(_variant(parsed, data, cell, full, bed, default_bed))
    if not made:
        raise parsed.error('nothing is left of the matrix', 'leave_out')
    return made


def _part(part, path, data, bed, asked):
    """Return the variants of one scenario of a suite."""
    changes = {**part.get('set', {}), **asked}
    rounds = part.get('rounds', data.get('rounds'))
    if rounds is not None:
        changes['rounds'] = rounds
    variants = scenario(part['scenario'], beside=path, changes=changes,
                        bed=bed, default_bed=data.get('bed', DEFAULT_BED))
    return only(variants, part['only']) if 'only' in part else variants


def only(variants: Sequence[model.Variant], patterns: Sequence[str],
         ) -> list[model.Variant]:
    """Return variants that match a pattern, with or without the scenario.

    :raises LookupError: a pattern matches none.
    """
    kept: dict[str, model.Variant] = {}
    for pattern in patterns:
        fits = [variant for variant in variants
                if fnmatch.fnmatch(variant.name, pattern)
                or fnmatch.fnmatch(variant.name.partition('/')[2], pattern)]
        if not fits:
            raise LookupError(
                f'no case is called "{pattern}"; there are '
                + ', '.join(variant.name for variant in variants))
        kept |= {variant.name: variant for variant in fits}
    return [variant for variant in variants if variant.name in kept]


def _variant(parsed, data, cell, name, bed, default_bed):
    data = copy.deepcopy(data)
    for choice in cell:
        for path, value in choice.changes.items():
            try:
                matrix.change(data, path, value)
            except KeyError:
                raise parsed.error(f'there is nothing at {path}',
                                   *choice.keys) from None
    _check(parsed, data, cell)
    where = data.get('bed', default_bed)
    changes: tuple[tuple[tuple[str, ...], Any], ...] = ()
    if isinstance(where, dict):
        changes = tuple(_leaves(where.get('set', {})))
        where = where['name']
    made = model.Variant(
        name=name, bed=bed or where,
        bed_set=changes,
        software=model.Software(**data.get('software', {})),
        beside=tuple(model.Software(**peer)
                     for peer in data.get('beside', ())),
        services=model.Services(**data.get('services', {})),
        traffic=_traffic(data.get('traffic', {})),
        measure=model.Measure(**data['measure']),
        events=tuple(sorted((model.Event(**event)
                             for event in data.get('events', ())),
                            key=lambda event: event.at)),
        rounds=data.get('rounds', 3),
        coordinates={matrix.name_of(choice.row): choice.coordinate
                     for choice in cell})
    for keys, text in rules.mistakes(made, data):
        raise parsed.error(f'{name}: {text}', *_keys(cell, keys))
    return made


def _check(parsed, data, cell):
    """:raises DeclarationError: values of the matrix do not fit."""
    for keys, text in schemas.mistakes(data, schema.SCENARIO):
        raise parsed.error(text, *_keys(cell, keys))


def _keys(cell, keys):
    """Return where a value is declared: in the matrix if that sets it."""
    path = '.'.join(map(str, keys))
    for choice in cell:
        for changed in choice.changes:
            if f'{path}.'.startswith(f'{changed}.') or (
                    f'{changed}.'.startswith(f'{path}.')):
                return choice.keys
    return keys


def _traffic(data):
    sizes = data.get('sizes', model.Traffic.sizes)
    if sizes == 'imix':
        sizes = model.IMIX
    elif isinstance(sizes, int):
        sizes = ((sizes, 1),)
    return model.Traffic(**{
        **data, 'sizes': tuple(tuple(size) for size in sizes)})


def _leaves(data, above=()):
    """Yield (keys, value) of each value of nested mappings."""
    for key, value in data.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, (*above, key))
        else:
            yield (*above, key), value


