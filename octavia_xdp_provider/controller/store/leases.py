# SPDX-License-Identifier: Apache-2.0
"""Leases: what only one controller may do at a time.

An owner renews its lease until it ends. Each new owner draws a greater token,
and what is written under a lease checks it in the same transaction: a
controller that slept through the end of its lease writes nothing any more.
The check is a write of the lease's row, so that of two transactions on two
servers of a cluster one fails.
"""

from typing import Any

import sqlalchemy as sa

from octavia_xdp_provider.common import ages
from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import models


class LeaseLost(Exception):
    """Somebody else has the lease."""


def latest_end(now: Any, lease_s: float) -> Any:
    """After this no lease or claim can end that somebody took by now.

    One that does was taken before the database's clock was set back, and
    would last for as long as that. Controllers may have different options.
    """
    return now + 6 * lease_s


class Leases(base.Base):
    """Queries about leases."""

    @base.retried
    def acquire(self, name: str, owner: str, lease_s: float) -> int | None:
        """Take a lease or renew it.

        :param owner: unique to this run of this process.
        :param lease_s: seconds for which it holds.
        :returns: the token; None: another owner has it.
        """
        with self._writing() as session:
            now = self._now(session)
            row = session.execute(sa.select(
                models.Lease.owner, models.Lease.token,
                models.Lease.expires_at).where(
                    models.Lease.name == name)).first()
            if row is None:
                session.execute(sa.insert(models.Lease).values(
                    name=name, owner=owner, token=1,
                    expires_at=now + lease_s))
                return 1
            if row.owner != owner and now < row.expires_at < latest_end(
                    now, lease_s):
                return None
            token = int(row.token) + (row.owner != owner)
            found = session.execute(sa.update(models.Lease).where(
                models.Lease.name == name, models.Lease.owner == row.owner,
                models.Lease.token == row.token,
                models.Lease.expires_at == row.expires_at).values(
                    owner=owner, token=token, expires_at=now + lease_s))
            return token if found.rowcount else None

    @base.retried
    def resign(self, name: str, owner: str) -> None:
        """Let another one have it at once."""
        with self._write() as session:
            session.execute(sa.update(models.Lease).where(
                models.Lease.name == name,
                models.Lease.owner == owner).values(expires_at=0.0))

    def lease(self, name: str) -> tuple[str, float] | None:
        """Owner, and for how many seconds more; None: nobody has it."""
        with self._read() as session:
            row = session.get(models.Lease, name)
            if row is None:
                return None
            left_s = ages.age(self._now(session), row.expires_at)
            return (str(row.owner), left_s) if left_s else None

    @classmethod
    def _check_lease(cls, session: Any, name: str, token: int) -> None:
        """In a transaction that only the owner of a lease may make.

        :raises LeaseLost: another one has it, or it has ended.
        """
        found = session.execute(sa.update(models.Lease).where(
            models.Lease.name == name, models.Lease.token == token,
            models.Lease.expires_at > cls._now(session)).values(
                # Another value: a row that stays equal is not written.
                expires_at=models.Lease.expires_at + 1e-3))
        if not found.rowcount:
            raise LeaseLost('Another controller leads: lease '
                            f'{name} with token {token} is lost')
