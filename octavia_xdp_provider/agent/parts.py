# SPDX-License-Identifier: Apache-2.0
"""The parts of the agent that several others look at."""

import dataclasses

from octavia_xdp_provider.agent import nat
from octavia_xdp_provider.agent import probes
from octavia_xdp_provider.agent import processes
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.agent.uplinks import monitor
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.node import run_directory


@dataclasses.dataclass(frozen=True)
class Parts:
    """``processes``: the other processes of the node."""

    files: run_directory.RunDirectory
    datapath: datapath.Datapath
    announce: announcements.Announcements
    uplinks: monitor.UplinkMonitor
    probes: probes.Probes
    nat: nat.Nat
    processes: processes.Processes
