# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-manage: the operator's command on a control host."""

import argparse
import logging
from typing import Any

from cliff import app
from cliff import command
from cliff import commandmanager
from oslo_config import cfg
import pbr.version

from octavia_xdp_provider.config import options
from octavia_xdp_provider.manage import bounds
from octavia_xdp_provider.manage import database
from octavia_xdp_provider.manage import drain
from octavia_xdp_provider.manage import hosts
from octavia_xdp_provider.manage import load_balancers
from octavia_xdp_provider.manage import members
from octavia_xdp_provider.manage import nat_pools
from octavia_xdp_provider.manage import node_registration
from octavia_xdp_provider.manage import nodes
from octavia_xdp_provider.manage import open_slots
from octavia_xdp_provider.manage import placements
from octavia_xdp_provider.manage import projects
from octavia_xdp_provider.manage import proxy_addresses
from octavia_xdp_provider.manage import public_key
from octavia_xdp_provider.manage import rebalance
from octavia_xdp_provider.manage import secrets
from octavia_xdp_provider.manage import sync
from octavia_xdp_provider.manage import top
from octavia_xdp_provider.manage import vip_ports
from octavia_xdp_provider.manage import zones

PROGRAM = 'octavia-xdp-manage'
COMMANDS: dict[str, type[command.Command]] = {
    'bounds': bounds.List,
    'broker setup': node_registration.Control,
    'database upgrade': database.Upgrade,
    'host create': hosts.Create,
    'host delete': hosts.Delete,
    'host disable': hosts.Disable,
    'host enable': hosts.Enable,
    'host list': hosts.List,
    'host show': hosts.Show,
    'lb list': load_balancers.List,
    'lb members': members.Members,
    'lb move': load_balancers.Move,
    'lb show': load_balancers.Show,
    'lb watch-members': members.Watch,
    'node addresses': proxy_addresses.Register,
    'node list': nodes.List,
    'node nat': nodes.Nat,
    'node nat-pools': nat_pools.Register,
    'node open-slots': open_slots.List,
    'node public-key': public_key.Register,
    'node show': nodes.Show,
    'node zone': zones.Register,
    'node create': node_registration.Create,
    'node delete': node_registration.Delete,
    'node disable': nodes.Disable,
    'node drain': drain.Drain,
    'node enable': nodes.Enable,
    'placement list': placements.List,
    'placement allow-removals': placements.AllowRemovals,
    'project list': projects.List,
    'rebalance': rebalance.Rebalance,
    'secrets key': secrets.Key,
    'secrets list': secrets.List,
    'secrets rotate': secrets.Rotate,
    'sync': sync.Sync,
    'top': top.Top,
    'vip-port orphans': vip_ports.Orphans,
    'zone drain': zones.Drain,
    'zone enable': zones.Enable,
    'zone list': zones.List,
}

class Application(app.App):
    """Reads the configuration before any command runs."""

    def __init__(self, **arguments: Any) -> None:
        manager = commandmanager.CommandManager(
            'octavia_xdp.manage', ignored_modules=None)
        for name, command_class in COMMANDS.items():
            manager.add_command(name, command_class)
        super().__init__(
            description=__doc__.partition(': ')[2],
            version=pbr.version.VersionInfo(
                'octavia-xdp-provider').release_string(),
            command_manager=manager, deferred_help=True, **arguments)
        self.conf: cfg.ConfigOpts | None = None

    def build_option_parser(self, description: Any, version: Any,
                            argparse_kwargs: Any = None
                            ) -> argparse.ArgumentParser:
        parser = super().build_option_parser(description, version,
                                             argparse_kwargs)
        parser.add_argument('--config-file', action='append',
                            help='configuration file to read')
        return parser

    def configure_logging(self) -> None:
        super().configure_logging()
        # It would log the kind of database with each command.
        logging.getLogger('alembic').setLevel(logging.WARNING)

    def initialize_app(self, argv: list[str]) -> None:
        self.conf = options.load(config_files=self.options.config_file,
                                 prog=PROGRAM)


def main(argv: list[str]) -> int:
    """Run a command and return the exit status."""
    # Without arguments cliff would start its interactive shell.
    return Application().run(argv or ['--help'])
