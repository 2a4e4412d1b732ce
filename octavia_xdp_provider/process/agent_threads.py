# SPDX-License-Identifier: Apache-2.0
"""The threads that both agents have.

Everything that waits for the broker runs in threads that nothing waits for:
while the broker is unreachable, an agent keeps working and can be restarted.
"""

import threading
import time
import typing

from oslo_log import log as logging

from octavia_xdp_provider.process import monitoring as monitoring_module

LOG = logging.getLogger(__name__)

# Without an answer of a controller, after which GET /healthcheck fails.
CONTROLLER_SILENCE_S = 60.0
# That the end of an agent waits for its link to the controller.
TALK_ENDS_S = 5.0


class Runs(typing.Protocol):
    """A worker or link."""

    def run(self) -> None:
        """Run until ``stop`` is called."""

    def stop(self) -> None:
        """Ask ``run`` to return. Thread-safe."""


class AgentThreads:
    """Runs the worker, the link and the server for notifications.

    :param server: oslo_messaging server of the agent's own topic.
    :param interval_s: seconds between two fetches without a notification.
    """

    def __init__(self, monitoring: monitoring_module.Monitoring, worker: Runs,
                 link: Runs, server: typing.Any, interval_s: float) -> None:
        self._monitoring = monitoring
        self._worker = worker
        self._link = link
        self._server = server
        self._interval_s = interval_s
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Ask ``run`` to return."""
        self._stopped.set()
        self._worker.stop()
        self._link.stop()

    def run(self, title: str) -> None:
        """Run until ``stop`` is called.

        :param title: name of the agent in its log.
        """
        worker = threading.Thread(target=self._worker.run, name='worker')
        worker.start()
        talk = threading.Thread(target=self._link.run, name='link',
                                daemon=True)
        talk.start()
        listening = threading.Event()
        threading.Thread(target=self._listen, args=(listening,),
                         name='listen', daemon=True).start()
        self._monitoring.ready()
        LOG.info('%s serves.', title)
        self._stopped.wait()
        self._monitoring.stop()
        if listening.is_set():
            self._server.stop()
            self._server.wait()
        worker.join()
        talk.join(TALK_ENDS_S)
        LOG.info('%s has stopped; the kernel goes on forwarding.', title)

    def _listen(self, listening: threading.Event) -> None:
        """Receive notifications, once the broker can be reached."""
        try:
            self._server.start()
        except Exception:
            LOG.exception('The controller cannot wake this agent up: changes '
                          'are fetched every %s s.', self._interval_s)
        else:
            listening.set()


def silence(answered_at: float, what_goes_on: str) -> str | None:
    """Return the problem that no controller answers, or None if one does.

    :param answered_at: time of the last answer, by time.monotonic().
    """
    silent_s = time.monotonic() - answered_at
    if silent_s <= CONTROLLER_SILENCE_S:
        return None
    return (f'no controller has answered for {silent_s:.0f} s; {what_goes_on} '
            'goes on with what it has')
