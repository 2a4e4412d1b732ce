# SPDX-License-Identifier: Apache-2.0
"""What the commands of octavia-xdp-manage have in common.

They are cliff's, as those of the openstack command: each list can be had as
a table, JSON, YAML, CSV or plain values, with the columns that one names.
"""

from collections.abc import Iterable
from typing import Any

from cliff import command
from cliff import lister
from cliff import show

from octavia_xdp_provider.common import printable
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import schema


class NotDone(Exception):
    """The command could not do what it was asked; the text says why."""


class _Access:
    """Configuration and database, for commands."""

    app: Any

    @property
    def conf(self) -> Any:
        return self.app.conf

    def store(self) -> queries.Store:
        """The database.

        :raises SchemaError: it is not there, or of another version.
        """
        manager = schema.context_manager(self.conf)
        schema.check(manager)
        return queries.Store(manager)


class Command(_Access, command.Command):
    """A command that does something."""


class List(_Access, lister.Lister):
    """A command that lists. Some of it agents have said."""

    def produce_output(self, parsed_args: Any, column_names: Any, data: Any
                       ) -> int:
        return int(super().produce_output(parsed_args, column_names, [
            _shown(parsed_args, row) for row in data]))


class Show(_Access, show.ShowOne):
    """A command that shows one thing. Some of it agents have said."""

    def produce_output(self, parsed_args: Any, column_names: Any, data: Any
                       ) -> int:
        return int(super().produce_output(parsed_args, column_names,
                                          _shown(parsed_args, data)))


def _shown(arguments: Any, values: Iterable[Any]) -> list[Any]:
    if arguments.formatter == 'json':
        return list(values)  # which has a notation of its own
    return [printable.printable(value) for value in values]
