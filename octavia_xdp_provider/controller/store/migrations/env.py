# SPDX-License-Identifier: Apache-2.0
"""Alembic environment: the connection is handed over by store/schema.py."""

from alembic import context

from octavia_xdp_provider.controller.store import models

with context.config.attributes['engine'].connect() as connection:
    context.configure(connection=connection,
                      target_metadata=models.Base.metadata,
                      render_as_batch=True)
    with context.begin_transaction():
        context.run_migrations()
    connection.commit()
