# SPDX-License-Identifier: Apache-2.0
"""Alembic environment; store/schema.py passes the engine."""

from alembic import context

from octavia_xdp_provider.controller.store import models

with context.config.attributes['engine'].connect() as connection:
    context.configure(connection=connection,
                      target_metadata=models.Base.metadata,
                      render_as_batch=True)
    with context.begin_transaction():
        context.run_migrations()
    connection.commit()
