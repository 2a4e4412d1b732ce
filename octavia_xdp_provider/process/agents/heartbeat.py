# SPDX-License-Identifier: Apache-2.0
"""The heartbeat of LB nodes.

It is sent apart from reports, so that a node that is busy, or has a lot to
report, is not considered dead.
"""

from collections.abc import Callable
import threading
import time

from oslo_log import log as logging

from octavia_xdp_provider.contracts import rpc

LOG = logging.getLogger(__name__)

# Interval of heartbeats.
HEARTBEAT_S = 2.0


class Heartbeat:
    """Sends heartbeats unless a report has just served as one. Only its own
    thread waits for an unreachable broker.

    :param failed: called with "heartbeat" if one could not be sent.
    :param reported_at: returns Link.reported_at.
    """

    def __init__(self, host: str, client: rpc.HeartbeatClient,
                 failed: Callable[[str], None] = lambda kind: None,
                 reported_at: Callable[[], float] = lambda: float('-inf')
                 ) -> None:
        self._failed = failed
        self._reported_at = reported_at
        self._host = host
        self._client = client
        self._stop = threading.Event()

    def start(self) -> None:
        # A daemon thread: a call to an unreachable broker does not return.
        threading.Thread(target=self._run, name='heartbeat',
                         daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        last = time.monotonic()
        while not self._stop.wait(max(
                0.0, last + HEARTBEAT_S - time.monotonic())):
            reported_at = self._reported_at()
            if reported_at > last:
                last = reported_at
                continue
            last = time.monotonic()
            try:
                self._client.heartbeat(self._host)
            except rpc.TRANSPORT_ERRORS as error:
                self._failed('heartbeat')
                LOG.debug('No heartbeat: %s', error)
            except Exception:
                LOG.exception('Sending a heartbeat failed; going on.')
