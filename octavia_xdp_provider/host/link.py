# SPDX-License-Identifier: Apache-2.0
"""The connection of a hypervisor's agent to the controller."""

from octavia_xdp_provider.contracts import host_messages
from octavia_xdp_provider.contracts import host_rpc
from octavia_xdp_provider.host import moved_flows
from octavia_xdp_provider.host.library import HostError
from octavia_xdp_provider.process.agents import link
from octavia_xdp_provider.process.agents import reporting
from octavia_xdp_provider.process.agents import reports

# How much fits into one report.
HOSTS = reports.Sizes(
    host_messages.REPORT_PAGE, host_messages.COMPARE_PAGE,
    host_messages.REPORT_PAGE,
    weigh_counters=lambda port: len(port['entries']) or 1,
    counters_weight=host_messages.COUNTERS_MAX)


class Link(link.Link):
    """Fetches and reports, and sends flows of ports that have left."""

    unreadable = HostError

    def __init__(self, ends: reporting.Ends, interval_s: float,
                 failed: link.Failed, leaving: moved_flows.Leaving) -> None:
        super().__init__(ends, interval_s, failed)
        self._leaving = leaving

    def unsupported(self) -> str:
        return ('The controller does not know version '
                f'{host_rpc.VERSION} of the interface for hypervisors; '
                'upgrade it first. Going on with what it sent last.')

    def send_more(self) -> None:
        self._leaving.send(self._ends.controller, self._ends.host)
