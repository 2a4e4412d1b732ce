# SPDX-License-Identifier: Apache-2.0
"""The beds of a run, each built once and kept until the run ends."""

from collections.abc import Sequence
import contextlib
import copy
import dataclasses
import importlib
import json
from typing import Any

from bench import errors
from bench.beds import declaration
from bench.beds import interface
from bench.beds import reading
from bench.declarations import definitions
from bench.declarations import document as documents
from bench.declarations import schemas
from bench.scenarios import matrix
from bench.scenarios import model
from bench.software import catalog

Key = tuple[str, tuple[tuple[tuple[str, ...], Any], ...]]


def provider_of(name: str) -> interface.Provider:
    """:raises BenchError: there is no provider of this name."""
    if name not in declaration.PROVIDERS:
        raise errors.BenchError(f'no provider "{name}": there are '
                                + ', '.join(declaration.PROVIDERS))
    provider: interface.Provider = importlib.import_module(
        f'bench.beds.{name}').Provider()
    return provider


def key_of(variant: model.Variant) -> Key:
    """Return the key of the variant's bed; equal keys share a bed."""
    return variant.bed, variant.bed_set


def keys(variants: Sequence[model.Variant]) -> list[Key]:
    """Return the keys of all beds that these variants need."""
    return list(dict.fromkeys(
        key_of(variant) for variant in variants if not variant.is_alone))


def declared(key: Key, provider: str | None = None) -> declaration.Bed:
    """Return a bed as declared in its file, with changes by the scenario.

    :raises BenchError: the declaration is invalid; with the line.
    """
    name, changes = key
    parsed = documents.read(definitions.find(definitions.BEDS, name),
                            reading.SCHEMA)
    if changes:
        data = copy.deepcopy(parsed.data)
        for keys, value in changes:
            try:
                matrix.change_keys(data, keys, value)
            except KeyError as error:
                raise parsed.error(
                    f'a scenario changes {error.args[0]} of this bed, which '
                    'is not there', *keys) from None
        parsed = dataclasses.replace(parsed, data=data)
        for keys, text in schemas.mistakes(data, reading.SCHEMA):
            raise parsed.error(f'as a scenario changes it: {text}', *keys)
    made = reading.from_document(parsed, provider)
    for keys, text in catalog.mistakes(
            made.software.name or model.Software.name,
            made.software.configuration):
        raise parsed.error(text, 'software', *keys)
    # Distinguish beds of one file with different changes.
    return dataclasses.replace(made, name=' '.join((made.name, *(
        f'{".".join(keys)}={json.dumps(value)}' for keys, value in changes))))


def configured(variant: model.Variant, bed: declaration.Bed,
               ) -> model.Variant:
    """Return the variant with the bed's configuration of software, which the
    scenario's overrides."""
    def of(software):
        if software.name != (bed.software.name or model.Software.name):
            return software
        return dataclasses.replace(software, configuration={
            **bed.software.configuration, **software.configuration})
    return dataclasses.replace(
        variant, software=of(variant.software),
        beside=tuple(map(of, variant.beside)))


class Beds(contextlib.ExitStack):
    """:param run: prefix of the names of beds."""

    def __init__(self, run: str, provider: str | None = None):
        super().__init__()
        self._run = run
        self._provider = provider
        self._beds: dict[Key, interface.Bed] = {}

    def make(self, variants: Sequence[model.Variant],
             ) -> list[model.Variant]:
        """Build all beds that these need, after reading all declarations.

        :returns: the variants with the configuration of their beds.
        """
        wanted = {key: declared(key, self._provider)
                  for key in keys(variants)}
        for key, bed in wanted.items():
            run = f'{self._run}-{len(self._beds) + 1}'
            provider = provider_of(bed.provider)
            self._beds[key] = self.enter_context(provider.build(bed, run))
        return [variant if variant.is_alone else
                configured(variant, wanted[key_of(variant)])
                for variant in variants]

    def of(self, variant: model.Variant) -> interface.Bed:
        return self._beds[key_of(variant)]

    def all(self) -> list[interface.Bed]:
        return list(self._beds.values())
