# SPDX-License-Identifier: Apache-2.0
"""The connection of a hypervisor's agent to the controller."""

import typing

from octavia_xdp_provider.contracts import host_messages
from octavia_xdp_provider.contracts import host_rpc
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.host.library import HostError
from octavia_xdp_provider.process import link
from octavia_xdp_provider.process import reports

# How much fits into one report.
HOSTS = reports.Sizes(
    host_messages.REPORT_PAGE, host_messages.COMPARE_PAGE,
    host_messages.REPORT_PAGE,
    weigh_counters=lambda port: len(port['entries']) or 1,
    counters_weight=host_messages.COUNTERS_MAX)


class Link(link.Link):
    """Fetches and reports, and sends flows of ports that have left.

    :param controller: host_rpc.HostsClient.
    :param fetcher: fetching.Fetcher.
    :param worker: worker.Worker.
    :param state: host_state.HostState.
    :param files: run_directory.RunDirectory.
    """

    unreadable = HostError

    def report(self) -> None:
        super().report()
        self._worker.leaving.send(self._controller, self._host)

    def _report_news(self) -> None:
        super()._report_news()
        self._worker.leaving.send(self._controller, self._host)

    def complain(self, error: Exception) -> str:
        if rpc.is_unsupported_version(error):
            return ('The controller does not know version '
                    f'{host_rpc.VERSION} of the interface for '
                    'hypervisors; upgrade it first. Going on with what it '
                    'sent last.')
        if rpc.is_refused(error):
            return f'The controller refuses a message of this agent: {error}'
        return typing.cast(str, super().complain(error))
