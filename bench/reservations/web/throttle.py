# SPDX-License-Identifier: Apache-2.0
"""Passwords cannot be tried often: attempts are counted in the database, by
all processes of the server together.

An attempt counts from its beginning and is taken back if it was right, so
that many at once are no way around.
"""

from bench.reservations import database
from bench.reservations import leases

WINDOW_S = 900
# Attempts that failed within the window: of a name from an address, from an
# address, of a name. The last one is high: it locks the user out as well.
LIMITS = {'pair': 5, 'address': 20, 'name': 100}


class Throttle:
    """Of a site."""

    def __init__(self, site: leases.Leases):
        self._site = site

    def begin(self, name: str, address: str) -> list[int] | None:
        """Count an attempt: what `right` takes; None if it is refused."""
        table = database.FAILURES
        now = self._site.now()
        with self._site.engine.begin() as connection:
            # Those from the time to come are of a clock that was set back.
            connection.execute(table.delete().where(
                (table.c.at <= now - WINDOW_S) | (table.c.at > now)))
            keys = _keys(name, address)
            for kind, key in keys.items():
                rows = connection.execute(table.select().where(
                    table.c.key == key)).all()
                if len(rows) >= LIMITS[kind]:
                    return None
            return [int(connection.execute(table.insert().values(
                key=key, at=now)).inserted_primary_key[0])
                for key in keys.values()]

    def right(self, attempt: list[int]) -> None:
        """It was right: it does not count."""
        table = database.FAILURES
        with self._site.engine.begin() as connection:
            connection.execute(table.delete().where(table.c.id.in_(attempt)))


def _keys(name, address):
    return {'pair': f'pair {address} {name}', 'address': f'address {address}',
            'name': f'name {name}'}
