# SPDX-License-Identifier: Apache-2.0
"""What the controller asks its database, each in one transaction.

Writers of one process take a lock as well: SQLite would otherwise let two
transactions read and then refuse the second one's write. On MariaDB and
PostgreSQL the row lock on the sequence serialises writers of several
processes.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
import contextlib
import json
import threading
import time
from typing import Any

import sqlalchemy as sa

from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import messages
from octavia_xdp_provider.common import spec
from octavia_xdp_provider.common import validation
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import rows


class Store:
    """The wanted state, kept."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def _write(self) -> Iterator[Any]:
        with self._lock, self._manager.writer.using(_Context()) as session:
            yield session

    def _read(self) -> Any:
        return self._manager.reader.using(_Context())

    @staticmethod
    def _next_generation(session: Any) -> int:
        sequence = session.get(models.Sequence, 1, with_for_update=True)
        sequence.value += 1
        session.flush()
        return int(sequence.value)

    # The driver's changes

    def find(self, load_balancer_id: str | None = None,
             pool_id: str | None = None) -> str:
        """Id of the load balancer that a change belongs to.

        :raises UnknownObject: it is not there.
        """
        with self._read() as session:
            if load_balancer_id is None:
                pool = session.get(models.Pool, pool_id)
                if pool is None:
                    raise errors.UnknownObject(f'pool {pool_id}')
                load_balancer_id = str(pool.load_balancer_id)
        return load_balancer_id

    def create(self, document: spec.Document) -> int:
        """Store a new load balancer. Returns its generation.

        Creating one that exists with an equal document changes nothing, so
        that a repeated message does no harm.

        :raises Conflict: another one has the VIP.
        :raises Refused: it cannot be done beside another one.
        """
        with self._write() as session:
            generation = self._next_generation(session)
            others = session.query(models.LoadBalancer).filter_by(
                vip_address=document['vip_address'], deleted=False)
            for other in others:
                if other.id != document['id']:
                    raise errors.Conflict(
                        f'VIP address {document["vip_address"]} is already '
                        'announced for another load balancer of the xdp '
                        'provider; use another address.')
            row = session.get(models.LoadBalancer, document['id'])
            if row is not None and not row.deleted:
                return int(row.generation)
            self._validate_together(session, document)
            if row is None:
                row = models.LoadBalancer(
                    id=document['id'], sent_generation=0,
                    failed_generation=0, removed='[]')
                session.add(row)
            row.deleted = False
            row.vip_address = document['vip_address']
            self._set_document(session, row, document, generation)
            return generation

    def change(self, load_balancer_id: str,
               function: Callable[[spec.Document], spec.Document],
               expected: int | None = None) -> int | None:
        """Replace the document by ``function(document)``.

        Objects that it removed are remembered until DELETED was sent.
        Returns the new generation.

        :param expected: do nothing and return None unless the document
            still has this generation.
        :raises UnknownObject: the load balancer is not there.
        :raises Refused: the new document cannot be done beside another one.
        """
        with self._write() as session:
            generation = self._next_generation(session)
            row = session.get(models.LoadBalancer, load_balancer_id)
            if row is None or row.deleted:
                raise errors.UnknownObject(
                    f'load balancer {load_balancer_id}')
            if expected is not None and row.generation != expected:
                return None
            before = rows.document(row)
            after = function(before)
            self._validate_together(session, after)
            gone = spec.objects(before) - spec.objects(after)
            removed = json.loads(row.removed)
            removed += [[kind, key, generation]
                        for kind, key in sorted(gone)]
            session.query(models.ListenerCounter).filter(
                models.ListenerCounter.listener_id.in_(
                    [key for kind, key in gone if kind == 'listener'])
            ).delete()
            row.removed = json.dumps(removed)
            self._set_document(session, row, after, generation)
            return generation

    @staticmethod
    def _validate_together(session: Any, document: spec.Document) -> None:
        if not validation.concerns_others(document):
            return
        for row in session.query(models.LoadBalancer).filter_by(
                deleted=False):
            if row.id != document['id']:
                validation.validate_together(document, rows.document(row))

    @staticmethod
    def _set_document(session: Any, row: Any, document: spec.Document,
                      generation: int) -> None:
        row.document = json.dumps(document, sort_keys=True)
        row.generation = generation
        row.changed_at = time.time()
        session.flush()
        known = {pool.id: pool for pool in session.query(
            models.Pool).filter_by(load_balancer_id=row.id)}
        for pool_id in document['pools'].keys() - known.keys():
            session.merge(models.Pool(id=pool_id, load_balancer_id=row.id))
        for pool_id in known.keys() - document['pools'].keys():
            session.delete(known[pool_id])

    def delete(self, load_balancer_id: str) -> int | None:
        """Mark a load balancer as deleted. Returns the generation, or None
        where it is not there."""
        with self._write() as session:
            generation = self._next_generation(session)
            row = session.get(models.LoadBalancer, load_balancer_id)
            if row is None:
                return None
            if not row.deleted:
                row.deleted = True
                row.generation = generation
                row.changed_at = time.time()
                session.query(models.Placement).filter_by(
                    load_balancer_id=load_balancer_id,
                    removed_generation=None).update(
                        {'removed_generation': generation})
            return int(row.generation)

    # What was sent to Octavia

    def mark_sent(self, load_balancer_id: str, generation: int,
                  failed: bool = False) -> None:
        """Octavia's statuses were set for this generation.

        :param failed: they were set to ERROR, so that the deletion of
            removed objects remains to be sent.
        """
        with self._write() as session:
            row = session.get(models.LoadBalancer, load_balancer_id)
            if row is None:
                return
            if failed:
                row.failed_generation = max(row.failed_generation, generation)
                return
            row.sent_generation = max(row.sent_generation, generation)
            row.removed = json.dumps(
                [item for item in json.loads(row.removed)
                 if item[2] > generation])

    def forget(self, load_balancer_id: str) -> None:
        """Octavia knows of the deletion: drop the row.

        Placements on nodes that have not confirmed the removal stay, so
        that a node which comes back late still removes it.
        """
        with self._write() as session:
            row = session.get(models.LoadBalancer, load_balancer_id)
            if row is not None and row.deleted:
                for child in (models.Pool, models.ListenerCounter):
                    session.query(child).filter_by(
                        load_balancer_id=load_balancer_id).delete()
                session.delete(row)

    # Reading

    def load_balancers(self, ids: Iterable[str] | None = None
                       ) -> list[rows.LoadBalancer]:
        """All load balancers, or those with these ids that there are."""
        with self._read() as session:
            query = session.query(models.LoadBalancer)
            if ids is not None:
                query = query.filter(models.LoadBalancer.id.in_(list(ids)))
            return [rows.load_balancer(row) for row in query]

    def load_balancer(self, load_balancer_id: str
                      ) -> rows.LoadBalancer | None:
        with self._read() as session:
            row = session.get(models.LoadBalancer, load_balancer_id)
            return rows.load_balancer(row) if row else None

    def nodes(self) -> list[rows.Node]:
        with self._read() as session:
            return [rows.node(row) for row in session.query(models.Node)]

    def placements(self, ids: Iterable[str] | None = None
                   ) -> list[rows.Placement]:
        """All placements, or those of these load balancers."""
        with self._read() as session:
            query = session.query(models.Placement)
            if ids is not None:
                query = query.filter(
                    models.Placement.load_balancer_id.in_(list(ids)))
            return [rows.placement(row) for row in query]

    def load(self) -> dict[str, int]:
        """Host → load balancers that are on it and not leaving."""
        with self._read() as session:
            return dict(session.query(
                models.Placement.host, sa.func.count()).filter(
                    models.Placement.removed_generation.is_(None)).group_by(
                        models.Placement.host).all())

    # Nodes

    def fetch(self, host: str, known: dict[str, int]
              ) -> messages.FetchAnswer:
        """What a node should have.

        :param known: load balancer id → generation that the node holds.
        :returns: ``{"as_of": n, "generations": {id: n},
            "documents": {id: document}}`` with the documents that differ
            from the known generations.
        """
        with self._read() as session:
            as_of = session.get(models.Sequence, 1).value
            found = session.query(models.LoadBalancer).join(
                models.Placement, models.Placement.load_balancer_id ==
                models.LoadBalancer.id).filter(
                    models.Placement.host == host,
                    models.Placement.removed_generation.is_(None),
                    models.LoadBalancer.deleted.is_(False))
            generations, documents = {}, {}
            for row in found:
                generations[row.id] = row.generation
                if known.get(row.id) != row.generation:
                    documents[row.id] = rows.document(row)
        return {'as_of': as_of, 'generations': generations,
                'documents': documents}

    def seen(self, host: str, state: dict[str, Any]) -> bool:
        """A node reported. Returns True when it is new."""
        with self._write() as session:
            row = session.get(models.Node, host)
            new = row is None
            if new:
                row = models.Node(host=host, in_service=True)
                session.add(row)
            row.last_seen = time.time()
            row.state = json.dumps(state, sort_keys=True)
        return new

    def report(self, host: str, as_of: int,
               synced: dict[str, messages.Synced]) -> set[str]:
        """Note what a node has made true.

        :param synced: id → ``{"generation": n, "error": text or None}``.
        :returns: ids of load balancers whose placement changed.
        """
        touched = set()
        with self._write() as session:
            for row in session.query(models.Placement).filter_by(host=host):
                mine = synced.get(row.load_balancer_id)
                if row.removed_generation is not None:
                    if mine is None and as_of >= row.removed_generation:
                        session.delete(row)
                        touched.add(row.load_balancer_id)
                elif mine is not None:
                    state = (mine['generation'], mine['error'])
                    if state != (row.synced_generation, row.error):
                        row.synced_generation, row.error = state
                        touched.add(row.load_balancer_id)
        return touched

    def count(self, host: str,
              counters: dict[str, dict[str, messages.Counters]]) -> None:
        """Add what a node has counted since its last report.

        :param counters: load balancer id → {listener id: {"bytes": n,
            "flows": n}}, as read on the node.
        """
        with self._write() as session:
            known = {row.listener_id: row for row in session.query(
                models.ListenerCounter).filter_by(host=host)}
            held = {key for key, in session.query(models.LoadBalancer.id)}
            for load_balancer_id in counters.keys() & held:
                for key, now in counters[load_balancer_id].items():
                    row = known.get(key)
                    if row is None:
                        row = models.ListenerCounter(
                            listener_id=key, host=host, last_bytes=0,
                            last_flows=0, total_bytes=0, total_flows=0,
                            load_balancer_id=load_balancer_id)
                        session.add(row)
                    for name in ('bytes', 'flows'):
                        last = getattr(row, f'last_{name}')
                        grown = now[name] - (
                            last if now[name] >= last else 0)
                        setattr(row, f'last_{name}', now[name])
                        setattr(row, f'total_{name}',
                                getattr(row, f'total_{name}') + grown)

    def statistics(self) -> dict[str, tuple[int, int]]:
        """Listener id → (bytes, flows), summed over all nodes."""
        sums: dict[str, tuple[int, int]] = {}
        with self._read() as session:
            for row in session.query(models.ListenerCounter):
                before = sums.get(row.listener_id, (0, 0))
                sums[row.listener_id] = (before[0] + row.total_bytes,
                                         before[1] + row.total_flows)
        return sums

    def place(self, load_balancer_id: str, add: Iterable[str] = (),
              remove: Iterable[str] = (), *,
              decided_on: frozenset[str] | None = None,
              failed: int = 0) -> bool:
        """Put a load balancer on nodes and take it from others.

        :param decided_on: the hosts that it was on when this was decided.
            Nothing is done and False returned if it is on others now, or
            deleted. None: whatever it is on.
        :param failed: how many of the removals count for the budget, see
            removals_since().
        """
        with self._write() as session:
            # The lock on the sequence is held from here to the commit.
            generation = self._next_generation(session)
            if decided_on is not None and not self._is_on(
                    session, load_balancer_id, decided_on):
                return False
            if failed:
                session.add(models.Removal(at=time.time(), number=failed))
            for host in add:
                session.merge(models.Placement(
                    load_balancer_id=load_balancer_id, host=host,
                    synced_generation=0, error=None,
                    removed_generation=None))
            for host in remove:
                row = session.get(models.Placement, (load_balancer_id, host))
                if row is not None:
                    row.removed_generation = generation
            return True

    @staticmethod
    def _is_on(session: Any, load_balancer_id: str,
               hosts: frozenset[str]) -> bool:
        row = session.get(models.LoadBalancer, load_balancer_id)
        found = session.query(models.Placement.host).filter_by(
            load_balancer_id=load_balancer_id, removed_generation=None)
        return (row is not None and not row.deleted
                and {host for host, in found} == hosts)

    def removals_since(self, span_s: float) -> int:
        """Removals from failed nodes in the last so many seconds.

        Less those that the operator has allowed beyond the budget.
        """
        with self._read() as session:
            number = session.query(sa.func.sum(models.Removal.number)).filter(
                models.Removal.at > time.time() - span_s).scalar()
        return int(number or 0)

    def allow_removals(self, number: int, span_s: float) -> None:
        """The operator's word that so many more nodes' VIPs may go."""
        with self._write() as session:
            session.query(models.Removal).filter(
                models.Removal.at <= time.time() - span_s).delete()
            session.add(models.Removal(at=time.time(), number=-number))

    def set_in_service(self, host: str, in_service: bool) -> bool:
        """The operator's word for a node. False where it is unknown."""
        with self._write() as session:
            row = session.get(models.Node, host)
            if row is None:
                return False
            row.in_service = in_service
            return True

    def remove_node(self, host: str) -> bool:
        """Forget a node that will never come back."""
        with self._write() as session:
            session.query(models.Placement).filter_by(host=host).delete()
            row = session.get(models.Node, host)
            if row is None:
                return False
            session.delete(row)
            return True


class _Context:
    """enginefacade hangs its session on a context of the caller's."""
