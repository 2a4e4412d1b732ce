# SPDX-License-Identifier: Apache-2.0
"""Octavia as the controller sees it, through octavia-driver-agent.

Statuses and statistics go out, its committed load balancers come in.
"""

from octavia_lib.api.drivers import driver_lib
from octavia_lib.api.drivers import exceptions

from octavia_xdp_provider.common import spec
from octavia_xdp_provider.common import translate


class OctaviaUnavailable(Exception):
    """octavia-driver-agent does not answer or refuses; try again."""


class _Library(driver_lib.DriverLibrary):
    """DriverLibrary whose constructor does not wait for the sockets.

    The original waits up to two minutes for octavia-driver-agent; the
    controller tries again by itself and must stay responsive meanwhile.
    """

    def _check_for_socket_ready(self, socket):
        pass


class Octavia:
    """What the controller needs of octavia-driver-agent."""

    def __init__(self, conf):
        self._library = _Library(
            status_socket=conf.controller.status_socket,
            stats_socket=conf.controller.stats_socket,
            get_socket=conf.controller.get_socket)

    def document(self, load_balancer_id):
        """The load balancer as Octavia has committed it, or None.

        :raises OctaviaUnavailable: it could not be asked.
        """
        try:
            found = self._library.get_loadbalancer(load_balancer_id)
        except (exceptions.DriverError,
                exceptions.DriverAgentTimeout) as error:
            raise OctaviaUnavailable(
                f'octavia-driver-agent: {error.__cause__ or error}'
            ) from error
        if found is None:
            return None
        return spec.document(load_balancer_id,
                             translate.load_balancer_tree(found))

    def set_statuses(self, message):
        """Set statuses.

        :raises OctaviaUnavailable: they were not set, or not all.
        """
        try:
            self._library.update_loadbalancer_status(message)
        except exceptions.UpdateStatusError as error:
            raise OctaviaUnavailable(
                f'octavia-driver-agent: {error.fault_string}') from error

    def set_statistics(self, statistics):
        """Set listener statistics.

        :param statistics: listener id → (bytes in, connections). The
            members answer clients directly and no connection is tracked,
            so that what goes out and what is open now is not known: 0.
        :raises OctaviaUnavailable: they were not set.
        """
        try:
            self._library.update_listener_statistics({'listeners': [
                {'id': key, 'active_connections': 0, 'bytes_in': bytes_in,
                 'bytes_out': 0, 'request_errors': 0,
                 'total_connections': connections}
                for key, (bytes_in, connections) in statistics.items()]})
        except exceptions.UpdateStatisticsError as error:
            raise OctaviaUnavailable(
                f'octavia-driver-agent: {error.fault_string}') from error
