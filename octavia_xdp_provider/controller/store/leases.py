# SPDX-License-Identifier: Apache-2.0
"""Leases for work that only one controller may do at a time.

An owner renews its lease until it ends. Each new owner gets a greater token,
and each write under a lease checks the token in the same transaction, so that
a controller that was suspended beyond the end of its lease writes nothing. The
check writes the lease's row, so that of two transactions on two servers of a
cluster one fails.
"""

from typing import Any

import sqlalchemy as sa

from octavia_xdp_provider.controller.store import base
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.process import ages


class LeaseLost(Exception):
    """Another controller has the lease."""


def latest_end(now: Any, lease_s: float) -> Any:
    """Return the latest possible end of a lease or claim taken until now.

    One that ends later was taken before the database's clock was set back, and
    would last too long. The factor allows for controllers with other options.
    """
    return now + 6 * lease_s


class Leases(base.Queries):
    """Queries about leases."""

    @base.retried
    def acquire(self, name: str, owner: str, lease_s: float) -> int | None:
        """Take or renew a lease.

        :param owner: unique to this run of this process.
        :param lease_s: duration in seconds.
        :returns: the token, or None if another owner has the lease.
        """
        with self._database.write_rows() as session:
            now = base.now(session)
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
            updated = session.execute(sa.update(models.Lease).where(
                models.Lease.name == name, models.Lease.owner == row.owner,
                models.Lease.token == row.token,
                models.Lease.expires_at == row.expires_at).values(
                    owner=owner, token=token, expires_at=now + lease_s))
            return token if updated.rowcount else None

    @base.retried
    def resign(self, name: str, owner: str) -> None:
        """Release a lease at once."""
        with self._database.write() as session:
            session.execute(sa.update(models.Lease).where(
                models.Lease.name == name,
                models.Lease.owner == owner).values(expires_at=0.0))

    def get(self, name: str) -> tuple[str, float] | None:
        """Return (owner, remaining seconds), or None without an owner."""
        with self._database.read() as session:
            row = session.get(models.Lease, name)
            if row is None:
                return None
            remaining_s = ages.age(base.now(session), row.expires_at)
            return (str(row.owner), remaining_s) if remaining_s else None


def check(session: Any, name: str, token: int) -> None:
    """Check a lease in a transaction of its owner.

    :raises LeaseLost: another owner has it, or it has ended.
    """
    result = session.execute(sa.update(models.Lease).where(
        models.Lease.name == name, models.Lease.token == token,
        models.Lease.expires_at > base.now(session)).values(
            # Changed, as an equal row would not be written.
            expires_at=models.Lease.expires_at + 1e-3))
    if not result.rowcount:
        raise LeaseLost('Another controller leads: lease '
                        f'{name} with token {token} is lost')
