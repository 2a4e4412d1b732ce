# SPDX-License-Identifier: Apache-2.0
"""Commands for the controllers' database."""

import argparse

from octavia_xdp_provider.controller.store import schema
from octavia_xdp_provider.manage import command


class Upgrade(command.Command):
    """Upgrade the database schema to the newest version."""

    def take_action(self, arguments: argparse.Namespace) -> None:
        before, after = schema.upgrade(schema.context_manager(self.conf))
        self.app.stdout.write(f'database: {before or "empty"} -> {after}\n')
