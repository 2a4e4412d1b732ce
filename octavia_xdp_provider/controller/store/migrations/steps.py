# SPDX-License-Identifier: Apache-2.0
"""Idempotent steps of a migration.

MariaDB commits each schema change immediately. A migration that is killed or
fails half-way is run again from its beginning, so each step first checks
whether it is already done. Changes of rows must be repeatable, too.
"""

from typing import Any

from alembic import op
import sqlalchemy as sa


def create_table(name: str, *columns: sa.Column[Any]) -> None:
    """:param columns: without indexes, which are separate steps."""
    if not _inspector().has_table(name):
        op.create_table(name, *columns)


def add_column(table: str, column: sa.Column[Any]) -> None:
    """Add a column; a server_default is needed unless it may be null."""
    if column.name not in {has['name']
                           for has in _inspector().get_columns(table)}:
        op.add_column(table, column)


def create_index(table: str, *columns: str) -> None:
    """Create an index with the name that SQLAlchemy gives it."""
    name = f'ix_{table}_{"_".join(columns)}'
    if name not in {has['name'] for has in _inspector().get_indexes(table)}:
        op.create_index(name, table, columns)


def _inspector() -> sa.Inspector:
    # A new one each time, because inspectors cache what they have read.
    return sa.inspect(op.get_bind())
