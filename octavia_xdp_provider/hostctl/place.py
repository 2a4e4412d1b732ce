# SPDX-License-Identifier: Apache-2.0
"""The hypervisor's datapath and the agent's files, for octavia-xdp-host."""

import time
import typing

from oslo_config import cfg
from ovs import poller as ovs_poller

from octavia_xdp_provider.config import options
from octavia_xdp_provider.host import datapath
from octavia_xdp_provider.host import links as links_module
from octavia_xdp_provider.host import ovsdb
from octavia_xdp_provider.host import run_directory
from octavia_xdp_provider.host import taps

# Seconds to wait for an answer of Open vSwitch's database.
OVSDB_S = 5.0


class Place:
    """Options and files of the agent.

    :raises ConfigurationError: the configuration cannot be used.
    """

    def __init__(self, arguments: typing.Any) -> None:
        self.conf: cfg.ConfigOpts = options.load(
            config_files=arguments.config_file, prog='octavia-xdp-host')
        for name in ('pin_directory', 'library', 'run_directory', 'ovsdb'):
            value = getattr(arguments, name)
            if value:
                self.conf.set_override(name, value, group='host_agent')
        self.files = run_directory.RunDirectory(self.conf)

    def open(self) -> datapath.Datapath:
        """:raises HostError: no state is pinned, or access is denied."""
        return self.files.open_datapath()


def snapshot() -> links_module.Snapshot:
    """Return the kernel's interfaces."""
    links = links_module.Links()
    try:
        return links.snapshot()
    finally:
        links.close()


def find_taps(remote: str, links: dict[str, links_module.Link],
              port_ids: typing.Iterable[str]) -> tuple[taps.Taps, bool]:
    """Return taps, and whether Open vSwitch's database has answered."""
    database = ovsdb.Database(remote)
    end = time.monotonic() + OVSDB_S
    try:
        while not database.is_known and time.monotonic() < end:
            database.run()
            poller = ovs_poller.Poller()
            database.wait(poller)
            if not database.is_known:
                poller.timer_wait(100)
                poller.block()
        if database.is_known:
            return taps.find(database.interfaces(), links), True
        return taps.guess(links, port_ids), False
    finally:
        database.close()
