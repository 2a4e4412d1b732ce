# SPDX-License-Identifier: Apache-2.0
"""Tenants' certificates and keys, as ciphertext (models.Bundle).

A bundle is stored in the transaction of the change that brings it, and is
deleted with the last document of its load balancer that names it, current or
pending. This module has no key: ciphertext is all it sees.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import sealed
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import rows

# Kind of the keys of session tickets, which no document names.
TICKETS = 'tickets'
_CERTIFICATE = 'certificate'


class Bundle(NamedTuple):
    """A row; ``expires_at`` as in models.Bundle."""

    name: str
    kind: str
    ciphertext: str
    expires_at: float | None


class Described(NamedTuple):
    """A row without its content."""

    load_balancer_id: str
    name: str
    kind: str
    expires_at: float | None


class ForNode(NamedTuple):
    """What a node may have.

    ``is_proxy``: whether it is a registered proxy node. ``bundles``: (load
    balancer id, bundle), in the order of names.
    """

    is_proxy: bool
    public_key: str | None
    bundles: list[tuple[str, Bundle]]


class Bundles(base.Queries):
    """Queries about bundles."""

    def for_node(self, host: str, names: Iterable[str]) -> ForNode:
        """Return the bundles with these names of the load balancers that are
        placed on a proxy node."""
        return self._for_node(host, _OF_NODE, {'names': list(names)})

    def tickets_for_node(self, host: str, ids: Iterable[str]) -> ForNode:
        """Return the keys of tickets of these load balancers, if they are
        placed on a proxy node."""
        return self._for_node(host, _TICKETS_OF_NODE, {'ids': list(ids)})

    def _for_node(self, host: str, statement: Any, values: dict[str, Any]
                  ) -> ForNode:
        with self._database.read_rows() as opened:
            node = opened.execute(_NODE, {'host': host}).first()
            if node is None or node.role != rows.PROXY:
                return ForNode(False, None, [])
            return ForNode(True, node.public_key, [
                (row.load_balancer_id, _bundle(row)) for row
                in opened.execute(statement, {'host': host, **values})])

    def without_tickets(self, host: str, ids: Iterable[str], now: float
                        ) -> list[str]:
        """Return which of these load balancers of a proxy node have a
        certificate, and no keys of tickets that are good until later."""
        with self._database.read_rows() as opened:
            return list(opened.execute(_WITHOUT_TICKETS, {
                'host': host, 'ids': list(ids), 'now': now}).scalars())

    @base.retried
    def renew_tickets(self, load_balancer_id: str, now: float,
                      renew: Callable[[Bundle | None], Bundle]) -> None:
        """Replace keys of tickets, unless another controller has done so.

        :param renew: returns the new ones from the stored ones.
        """
        with self._database.write() as session:
            base.draw(session)
            opened = base.connection(session)
            if opened.execute(_EXISTS, {'key': load_balancer_id}).first(
                    ) is None:
                return
            row = opened.execute(_TICKETS, {'key': load_balancer_id}).first()
            if row is not None and row.expires_at > now:
                return
            opened.execute(_DELETE_TICKETS, {'key': load_balancer_id})
            put(session, load_balancer_id,
                [renew(None if row is None else _bundle(row))])

    def describe(self, load_balancer_id: str | None = None
                 ) -> list[Described]:
        """Return all rows but keys of tickets, by load balancer and name,
        without contents."""
        table = models.Bundle.__table__
        statement = sa.select(
            table.c.load_balancer_id, table.c.name, table.c.kind,
            table.c.expires_at).where(table.c.kind != TICKETS).order_by(
                table.c.load_balancer_id, table.c.name)
        if load_balancer_id is not None:
            statement = statement.where(
                table.c.load_balancer_id == load_balancer_id)
        with self._database.read_rows() as opened:
            return [Described(*row) for row in opened.execute(statement)]

    def expiring(self, bounds_s: Iterable[float]) -> list[int]:
        """Return how many load balancers have a certificate or list that ends
        within each of these numbers of seconds from now."""
        table = models.Bundle.__table__
        with self._database.read_rows() as opened:
            now = base.now(opened)
            return [int(opened.execute(sa.select(sa.func.count(
                table.c.load_balancer_id.distinct())).where(
                    table.c.kind != TICKETS,
                    table.c.expires_at <= now + bound)).scalar_one())
                    for bound in bounds_s]

    def pages(self, size: int = 100) -> Iterator[list[tuple[str, Bundle]]]:
        """Yield all rows, (load balancer id, bundle), each page from a
        transaction of its own."""
        after = ('', '')
        while True:
            with self._database.read_rows() as opened:
                page = [(row.load_balancer_id, _bundle(row))
                        for row in opened.execute(_PAGE, {
                            'key': after[0], 'name': after[1],
                            'limit': size})]
            if not page:
                return
            yield page
            after = page[-1][0], page[-1][1].name

    @base.retried
    def replace(self, load_balancer_id: str, former: Bundle,
                ciphertext: str) -> bool:
        """Replace the ciphertext of a row that still is the same; return
        whether it was."""
        with self._database.write_rows() as opened:
            return bool(opened.execute(_REPLACE, {
                'key': load_balancer_id, 'of': former.name,
                'former': former.ciphertext,
                'new_ciphertext': ciphertext}).rowcount)


def put(session: orm.Session, load_balancer_id: str,
        bundles: Iterable[Bundle]) -> None:
    """Store bundles of a load balancer that has a row."""
    opened = base.connection(session)
    for bundle in bundles:
        values = {'load_balancer_id': load_balancer_id, **bundle._asdict()}
        opened.execute(_DELETE_ONE, {'key': load_balancer_id,
                                     'of': bundle.name})
        opened.execute(_BUNDLES.insert(), values)


def check(session: orm.Session, document: spec.Document,
          brought: Iterable[Bundle]) -> None:
    """Check that all bundles of a document are stored, or brought along.

    :raises Refused: names the option of the first one that is not.
    """
    options = sealed.options(document)
    if not options:
        return
    if len(options) > sealed.BUNDLES_MAX:
        raise errors.Refused(
            'sni_container_refs', f'the load balancer would have '
            f'{len(options)} certificates and lists of revoked certificates',
            f'use at most {sealed.BUNDLES_MAX} of all its listeners and pools '
            'together')
    missing = options.keys() - {bundle.name for bundle in brought}
    if missing:
        missing -= set(base.connection(session).execute(
            _NAMES, {'key': document['id']}).scalars())
    for name in sorted(missing):
        raise errors.Refused(
            options[name], 'the controllers do not have what it refers to',
            'set it again', f'no bundle {name} is stored')


def keep(session: orm.Session, load_balancer_id: str,
         documents: Iterable[spec.Document | None]) -> None:
    """Delete the bundles that none of these documents name.

    Keys of tickets stay as long as there is a bundle.
    """
    names = {name for document in documents
             for name in sealed.options(document)}
    statement = _BUNDLES.delete().where(
        _BUNDLES.c.load_balancer_id == load_balancer_id)
    if names:
        statement = statement.where(_BUNDLES.c.kind != TICKETS,
                                    _BUNDLES.c.name.not_in(sorted(names)))
    base.connection(session).execute(statement)


def _bundle(row: Any) -> Bundle:
    return Bundle(row.name, row.kind, row.ciphertext, row.expires_at)


# Statements that are built once, see base.py.

_BUNDLES = models.Bundle.__table__
_NODES = models.Node.__table__
_PLACEMENTS = models.Placement.__table__
_BALANCERS = models.LoadBalancer.__table__
_KEY: Any = sa.bindparam('key')
_NODE = sa.select(_NODES.c.role, _NODES.c.public_key).where(
    _NODES.c.host == sa.bindparam('host'))
_PLACED: Any = (_PLACEMENTS.c.host == sa.bindparam('host'),
                _PLACEMENTS.c.removed_generation.is_(None))
_ON_NODE = sa.select(_BUNDLES).join(
    _PLACEMENTS, _PLACEMENTS.c.load_balancer_id == _BUNDLES.c.load_balancer_id
    ).where(*_PLACED).order_by(_BUNDLES.c.name)
_IDS: Any = sa.bindparam('ids', expanding=True)
_OF_NODE = _ON_NODE.where(_BUNDLES.c.kind != TICKETS, _BUNDLES.c.name.in_(
    sa.bindparam('names', expanding=True)))
_TICKETS_OF_NODE = _ON_NODE.where(
    _BUNDLES.c.kind == TICKETS, _BUNDLES.c.load_balancer_id.in_(_IDS))
_TICKETS = sa.select(_BUNDLES).where(
    _BUNDLES.c.load_balancer_id == _KEY, _BUNDLES.c.kind == TICKETS)
_DELETE_TICKETS = _BUNDLES.delete().where(
    _BUNDLES.c.load_balancer_id == _KEY, _BUNDLES.c.kind == TICKETS)
_DELETE_ONE = _BUNDLES.delete().where(
    _BUNDLES.c.load_balancer_id == _KEY,
    _BUNDLES.c.name == sa.bindparam('of'))
_GOOD = _BUNDLES.alias('good')
_WITHOUT_TICKETS = sa.select(_BUNDLES.c.load_balancer_id.distinct()).join(
    _PLACEMENTS, _PLACEMENTS.c.load_balancer_id == _BUNDLES.c.load_balancer_id
    ).where(*_PLACED, _BUNDLES.c.load_balancer_id.in_(_IDS),
            _BUNDLES.c.kind == _CERTIFICATE,
            ~sa.exists().where(
                _GOOD.c.load_balancer_id == _BUNDLES.c.load_balancer_id,
                _GOOD.c.kind == TICKETS,
                _GOOD.c.expires_at > sa.bindparam('now')))
_EXISTS = sa.select(_BALANCERS.c.id).where(_BALANCERS.c.id == _KEY)
_NAMES = sa.select(_BUNDLES.c.name).where(_BUNDLES.c.load_balancer_id == _KEY)
_PAGE = sa.select(_BUNDLES).where(sa.or_(
    _BUNDLES.c.load_balancer_id > _KEY, sa.and_(
        _BUNDLES.c.load_balancer_id == _KEY,
        _BUNDLES.c.name > sa.bindparam('name')))).order_by(
            _BUNDLES.c.load_balancer_id, _BUNDLES.c.name).limit(
                sa.bindparam('limit', type_=sa.Integer()))
_REPLACE = sa.update(_BUNDLES).where(
    _BUNDLES.c.load_balancer_id == _KEY,
    _BUNDLES.c.name == sa.bindparam('of'),
    _BUNDLES.c.ciphertext == sa.bindparam('former')).values(
        ciphertext=sa.bindparam('new_ciphertext'))
