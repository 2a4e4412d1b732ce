# SPDX-License-Identifier: Apache-2.0
"""Base classes of the commands of octavia-xdp-manage.

They are cliff commands, as those of the openstack client: each list can be
printed as a table, JSON, YAML, CSV or plain values, with chosen columns.
"""

from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from cliff import command
from cliff import lister
from cliff import show

from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import schema
from octavia_xdp_provider.manage import printable

# Names of columns, and their values: of each row, or of the one object.
Table = tuple[Sequence[str], Iterable[Any]]


class CommandError(Exception):
    """The command failed; the text says why and what to do."""


class _Access:
    """Access to the configuration and the database."""

    app: Any

    @property
    def conf(self) -> Any:
        return self.app.conf

    def store(self) -> queries.Store:
        """Open the database.

        :raises SchemaError: it has no schema, or one of another version.
        """
        manager = schema.context_manager(self.conf)
        schema.check(manager)
        return queries.Store(manager)


class Command(_Access, command.Command):
    """A command that changes something."""


class List(_Access, lister.Lister):
    """A command that prints a list; it may contain text from agents."""

    def produce_output(self, parsed_args: Any, column_names: Any, data: Any
                       ) -> int:
        return int(super().produce_output(parsed_args, column_names, [
            _escape(parsed_args, row) for row in data]))


class Show(_Access, show.ShowOne):
    """A command that shows one object; it may contain text from agents."""

    def produce_output(self, parsed_args: Any, column_names: Any, data: Any
                       ) -> int:
        return int(super().produce_output(parsed_args, column_names,
                                          _escape(parsed_args, data)))


def _escape(arguments: Any, values: Iterable[Any]) -> list[Any]:
    """Escape control characters, which a terminal could obey."""
    if arguments.formatter == 'json':
        return list(values)  # JSON escapes them itself
    return [printable.printable(value) for value in values]
