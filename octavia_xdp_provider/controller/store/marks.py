# SPDX-License-Identifier: Apache-2.0
"""Puts load balancers into the work queue, in the transaction of the caller.

Whatever changes a load balancer marks it in the same transaction, so that no
change is forgotten.
"""

from collections.abc import Callable
from collections.abc import Iterable
import functools
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects import sqlite

from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import models

_INSERT: dict[str, Callable[[Any], Any]] = {
    'sqlite': sqlite.insert, 'postgresql': postgresql.insert}


def mark(session: base.Session, load_balancer_ids: Iterable[str],
         delay_s: float = 0.0) -> None:
    """Put load balancers into the work queue.

    :param delay_s: seconds until they are due; an item that is already due
        earlier stays so.
    """
    ids = sorted(set(load_balancer_ids))
    if not ids:
        return
    opened = base.connection(session)
    if len(ids) == 1:
        statement, row = base.timed(opened, lambda name: _marking_one(
            opened.dialect), {'load_balancer_id': ids[0], 'delay_s': delay_s})
        values = [row]
    else:
        statement = _marking(opened.dialect)
        due_at = base.now(session) + delay_s
        values = [{'load_balancer_id': key, 'version': 1,
                   'due_at': due_at, 'failures': 0} for key in ids]
    parameters: list[Any] = values
    if statement.positional:
        parameters = [tuple(row[name] for name in statement.positiontup)
                      for row in values]
    opened.exec_driver_sql(str(statement), parameters)


def mark_selected(session: base.Session, ids: Any, delay_s: float = 0.0
                  ) -> None:
    """Put load balancers that a query selects into the work queue.

    :param ids: a select of one column, with a WHERE clause.
    """
    due_at = base.now(session) + delay_s
    selected = ids.with_only_columns(
        ids.selected_columns[0], sa.literal(1), sa.literal(due_at),
        sa.literal(0)).distinct()
    name = base.dialect(session)
    base.connection(session).execute(_unless_marked(
        _INSERT.get(name, mysql.insert)(
            models.Work.__table__).from_select(
                ['load_balancer_id', 'version', 'due_at', 'failures'],
                selected, include_defaults=False), name))


@functools.cache
def _marking(made_for: Any) -> Any:
    """Return the statement that marks items, compiled for a dialect.

    SQLAlchemy would compile such a statement each time. All values are
    parameters, and nothing else is, so that PyMySQL sends many rows at once.
    """
    insert = _INSERT.get(made_for.name, mysql.insert)(
        models.Work.__table__).values({name: sa.bindparam(name) for name in (
            'load_balancer_id', 'version', 'due_at', 'failures')})
    return _unless_marked(insert, made_for.name).compile(dialect=made_for)


@functools.cache
def _marking_one(made_for: Any) -> Any:
    """The same for one item, without a query for the time before."""
    insert = _INSERT.get(made_for.name, mysql.insert)(
        models.Work.__table__).values({
            'load_balancer_id': sa.bindparam('load_balancer_id'),
            'version': sa.literal_column('1'),
            'due_at': base.clock(made_for.name) + sa.bindparam(
                'delay_s', type_=sa.Double()),
            'failures': sa.literal_column('0')})
    return _unless_marked(insert, made_for.name).compile(dialect=made_for)


def _unless_marked(insert: Any, dialect_name: str) -> Any:
    """Make items that are already in the queue due at the earlier time."""
    work = models.Work.__table__.c
    new = insert.excluded if dialect_name in _INSERT else insert.inserted
    changed = {'version': work.version + sa.literal_column('1'),
               'due_at': sa.case((work.due_at < new.due_at, work.due_at),
                                 else_=new.due_at)}
    if dialect_name in _INSERT:
        return insert.on_conflict_do_update(
            index_elements=['load_balancer_id'], set_=changed)
    return insert.on_duplicate_key_update(**changed)
