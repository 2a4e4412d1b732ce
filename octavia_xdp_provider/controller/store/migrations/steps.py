# SPDX-License-Identifier: Apache-2.0
"""Steps of a migration, each of which may be repeated.

MariaDB commits a change of the schema at once. A migration that is killed or
fails half-way is run again from its beginning, so that each step looks first
whether it is done. What a migration changes in rows must bear that, too.
"""

from alembic import op
import sqlalchemy as sa


def create_table(name, *columns):
    """:param columns: without indexes, which are steps of their own."""
    if not _inspector().has_table(name):
        op.create_table(name, *columns)


def add_column(table, column):
    """A column that is not null needs a server_default: there may be rows."""
    if column.name not in {has['name']
                           for has in _inspector().get_columns(table)}:
        op.add_column(table, column)


def create_index(table, *columns):
    """An index with the name that SQLAlchemy gives it."""
    name = f'ix_{table}_{"_".join(columns)}'
    if name not in {has['name'] for has in _inspector().get_indexes(table)}:
        op.create_index(name, table, columns)


def _inspector():
    # A new one each time: it remembers what it has seen.
    return sa.inspect(op.get_bind())
