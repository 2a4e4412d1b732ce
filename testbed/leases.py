# SPDX-License-Identifier: Apache-2.0
"""Takes, renews and ends leases, each in one transaction.

A lease ends by an entry in the log, never by time alone: a machine belongs to
its expired lease until "sync" or the next "reserve" has ended that. So a clock
that steps back can prolong a lease, but it can neither give a machine to two
owners nor revive an ended lease. The log is ordered by its numbers.
"""

from collections.abc import Callable
from collections.abc import Sequence
import dataclasses
import time

import sqlalchemy

from bench import errors
from testbed import database
from testbed import inventory
from testbed import words

RESERVE, RENEW, RELEASE, EXPIRE = 'reserve', 'renew', 'release', 'expire'
# Actions that change ownership.
CHANGES = RESERVE, RELEASE, EXPIRE
HOUR_S = 3600


class TakenError(errors.BenchError):
    """A machine is leased to someone else."""


@dataclasses.dataclass(frozen=True)
class Lease:
    """Machines leased to an owner. Times are in UNIX seconds."""

    number: int
    owner: str
    purpose: str
    kernel: str | None
    begins: int
    expires: int
    machines: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Entry:
    """An entry of the log."""

    number: int
    at: int
    who: str
    action: str
    lease: int | None
    text: str


class Leases:
    """The leases of a database.

    :param clock: returns UNIX time in seconds.
    """

    def __init__(self, engine: sqlalchemy.Engine,
                 clock: Callable[[], float] = time.time):
        self.engine = engine
        self._clock = clock

    def now(self) -> int:
        """Return the UNIX time."""
        return int(self._clock())

    def reserve(self, owner: str, machines: Sequence[str], hours: int,
                purpose: str, known: inventory.Inventory,
                kernel: str | None = None) -> Lease:
        """Reserve all of the machines, or none of them.

        :raises TakenError: a machine is taken; with its owner and until when.
        :raises errors.BenchError: the request is invalid.
        """
        owner, purpose = words.owner(owner), words.purpose(purpose)
        _check_machines(machines, kernel, known)
        _check_hours(hours, known)
        with self.engine.begin() as connection:
            now = self.now()
            self._end_expired(connection, now, owner)
            self._refuse_taken(connection, machines)
            number = int(connection.execute(database.LEASES.insert().values(
                owner=owner, purpose=purpose, kernel=kernel, begins=now,
                expires=now + hours * HOUR_S)).inserted_primary_key[0])
            for table in database.LEASED, database.HELD:
                connection.execute(table.insert(), [
                    {'lease': number, 'machine': name} for name in machines])
            entry = database.append(
                connection, now, owner, RESERVE, number,
                f'{", ".join(sorted(machines))} for {hours} h'
                + (f' with {kernel}' if kernel else '') + f': {purpose}')
            _set(connection, number, begun=entry)
            return self._get(connection, number)

    def renew(self, number: int, who: str, hours: int,
              known: inventory.Inventory) -> Lease:
        """Extend a lease to this many hours from now; never shorten it.

        :raises errors.BenchError: it has another owner or has ended.
        """
        _check_hours(hours, known)
        with self.engine.begin() as connection:
            now = self.now()
            lease = self._own(connection, number, who)
            if lease.expires <= now:
                raise errors.BenchError(
                    f'lease {number} expired at {words.time(lease.expires)}: '
                    'reserve again')
            expires = max(lease.expires, now + hours * HOUR_S)
            _set(connection, number, expires=expires)
            database.append(connection, now, who, RENEW, number,
                            f'until {words.time(expires)}')
            return self._get(connection, number)

    def release(self, number: int, who: str, force: bool = False) -> None:
        """End a lease early.

        :param force: allow to end the lease of another owner.
        :raises errors.BenchError: it has another owner or has ended.
        """
        with self.engine.begin() as connection:
            lease = self._get(connection, number) if force else \
                self._own(connection, number, words.owner(who))
            _end(connection, self.now(), who, RELEASE, lease)

    def end_expired(self, who: str) -> list[Lease]:
        """End expired leases, and return them."""
        with self.engine.begin() as connection:
            return self._end_expired(connection, self.now(), who)

    def active(self) -> list[Lease]:
        """Return the leases that have not ended, by number."""
        with self.engine.begin() as connection:
            return self._leases(connection, database.LEASES.c.ended.is_(None))

    def as_of(self, entry: int) -> list[Lease]:
        """Return the leases that were active right after a log entry."""
        columns = database.LEASES.c
        with self.engine.begin() as connection:
            return self._leases(
                connection, (columns.begun <= entry)
                & (columns.ended.is_(None) | (columns.ended > entry)))

    def lease(self, number: int) -> Lease:
        """Return a lease, even if it has ended.

        :raises errors.BenchError: there is no such lease.
        """
        with self.engine.begin() as connection:
            leases = self._leases(connection, database.LEASES.c.id == number)
        if not leases:
            raise errors.BenchError(f'there is no lease {number}')
        return leases[0]

    def changes_after(self, entry: int) -> list[Entry]:
        """Return entries after this one that changed ownership."""
        columns = database.LOG.c
        return self._entries(database.LOG.select().where(
            columns.id > entry, columns.action.in_(CHANGES),
        ).order_by(columns.id))

    def log(self, last: int | None = None) -> list[Entry]:
        """Return all entries, or the last ones, in order."""
        return self._entries(database.LOG.select().order_by(
            database.LOG.c.id.desc()).limit(last))[::-1]

    def note(self, who: str, action: str, text: str,
             lease: int | None = None) -> None:
        """Add an entry that is not about the start or end of a lease."""
        with self.engine.begin() as connection:
            database.append(connection, self.now(), who, action, lease, text)

    def _entries(self, query):
        with self.engine.begin() as connection:
            return [Entry(row.id, row.at, row.who, row.action, row.lease,
                          row.text) for row in connection.execute(query)]

    def _leases(self, connection, condition):
        leased = database.LEASED
        machines: dict[int, list[str]] = {}
        for row in connection.execute(
                sqlalchemy.select(leased).join(database.LEASES).where(
                    condition).order_by(leased.c.machine)):
            machines.setdefault(row.lease, []).append(row.machine)
        return [Lease(row.id, row.owner, row.purpose, row.kernel, row.begins,
                      row.expires, tuple(machines.get(row.id, ())))
                for row in connection.execute(
                    database.LEASES.select().where(condition).order_by(
                        database.LEASES.c.id))]

    def _get(self, connection, number):
        leases = self._leases(connection, (database.LEASES.c.id == number)
                              & database.LEASES.c.ended.is_(None))
        if not leases:
            raise errors.BenchError(
                f'lease {number} is none that is active; "list" shows '
                'those that are')
        return leases[0]

    def _own(self, connection, number, who):
        lease = self._get(connection, number)
        if lease.owner != who:
            raise errors.BenchError(
                f"lease {number} is {lease.owner}'s, not {who}'s")
        return lease

    def _refuse_taken(self, connection, machines):
        held = database.HELD
        taken = {row.machine: row.lease for row in connection.execute(
            held.select().where(held.c.machine.in_(machines)))}
        if taken:
            raise TakenError('; '.join(
                self._taken(connection, name, taken[name])
                for name in sorted(taken)))

    def _taken(self, connection, machine, number):
        lease = self._get(connection, number)
        return (f'{machine} is taken by {lease.owner} until '
                f'{words.time(lease.expires)} (lease {number}: '
                f'{lease.purpose})')

    def _end_expired(self, connection, now, who):
        expired = self._leases(
            connection, database.LEASES.c.ended.is_(None)
            & (database.LEASES.c.expires <= now))
        for lease in expired:
            _end(connection, now, who, EXPIRE, lease)
        return expired


def _end(connection, now, who, action, lease):
    entry = database.append(connection, now, who, action, lease.number,
                            ', '.join(lease.machines))
    _set(connection, lease.number, ended=entry)
    connection.execute(database.HELD.delete().where(
        database.HELD.c.lease == lease.number))


def _set(connection, number, **values):
    connection.execute(database.LEASES.update().where(
        database.LEASES.c.id == number).values(**values))


def _check_machines(machines, kernel, known):
    if not machines:
        raise errors.BenchError('name one machine at least')
    for name in machines:
        if name not in known.machines:
            raise errors.BenchError(
                f'there is no machine {name[:40]!r} in {known.path}, but: '
                f'{", ".join(sorted(known.machines))}')
    if len(set(machines)) != len(machines):
        raise errors.BenchError('a machine is named twice')
    if kernel is None:
        return
    if kernel not in known.kernels:
        raise errors.BenchError(
            f'there is no kernel {kernel[:40]!r} in {known.path}, but: '
            f'{", ".join(sorted(known.kernels)) or "none"}')
    diskful = [name for name in machines if known.machines[name].mac is None]
    if diskful:
        raise errors.BenchError(
            f'{", ".join(diskful)}: cannot boot {kernel}, for {known.path} '
            'has no MAC address of it')


def _check_hours(hours, known):
    if not 1 <= hours <= known.longest_hours:
        raise errors.BenchError(
            f'{hours} hours: 1 to {known.longest_hours} are taken')
