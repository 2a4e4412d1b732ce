# SPDX-License-Identifier: Apache-2.0
"""What both agents are made of: a worker, a link, monitoring.

Everything that waits for the broker runs in threads that nothing waits for:
while the broker is unreachable, an agent keeps working and can be restarted.
"""

import threading
import time

from oslo_config import cfg
from oslo_log import log as logging
import oslo_messaging

from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.process import monitoring
from octavia_xdp_provider.process.agents import link as agent_link
from octavia_xdp_provider.process.agents import worker as agent_worker

LOG = logging.getLogger(__name__)

# Without an answer of a controller, after which GET /healthcheck fails.
CONTROLLER_SILENCE_S = 60.0
# That the end of an agent waits for its link to the controller.
TALK_ENDS_S = 5.0


class Agent:
    """Runs the worker, the link and the server for notifications.

    Subclasses create their parts, among them ``_worker``, ``_link`` and
    ``_server``; ``run`` serves until ``stop`` is called.

    :param group: of the agent's options.
    """

    # Name of the agent in its log.
    title: str
    # The machine in the answers of GET /healthcheck: name of its check, and
    # in words.
    check: str
    machine: str
    # What goes on without the agent.
    remains = 'the kernel goes on forwarding'
    _worker: agent_worker.Worker
    _link: agent_link.Link
    _server: oslo_messaging.MessageHandlingServer

    def __init__(self, conf: cfg.ConfigOpts, group: str) -> None:
        self._conf = conf
        self._options = conf[group]
        self._monitoring = monitoring.Monitoring(conf, group)
        self._transport = rpc.transport(conf, host=conf.host)
        self._stopped = threading.Event()
        health = self._monitoring.health
        health.add('controller', self._check_controller)
        health.add(self.check, self._check_machine)

    def _check_controller(self) -> str | None:
        """Return the problem that no controller answers, or None."""
        silent_s = time.monotonic() - self._link.answered_at
        if silent_s <= CONTROLLER_SILENCE_S:
            return None
        return (f'no controller has answered for {silent_s:.0f} s; the '
                f'{self.machine} goes on with what it has')

    def _check_machine(self) -> str | None:
        return '; '.join(self._worker.problems) or None

    def _wake_worker(self) -> None:
        self._worker.wake()

    def _report_soon(self) -> None:
        self._link.report_soon()

    def stop(self) -> None:
        """Make ``run`` return. The datapath goes on forwarding."""
        self._stopped.set()
        self._worker.stop()
        self._link.stop()

    def reload(self) -> None:
        """Apply changed options."""
        self._worker.wake()

    def run(self) -> int:
        """Serve until ``stop`` is called; return the exit status.

        :raises ConfigurationError: it cannot listen as configured.
        """
        self._monitoring.start()
        self._start()
        worker = threading.Thread(target=self._worker.run, name='worker')
        worker.start()
        talk = threading.Thread(target=self._link.run, name='link',
                                daemon=True)
        talk.start()
        listening = threading.Event()
        threading.Thread(target=self._listen, args=(listening,),
                         name='listen', daemon=True).start()
        self._monitoring.ready()
        LOG.info('%s %s serves.', self.title, self._conf.host)
        self._stopped.wait()
        self._monitoring.stop()
        if listening.is_set():
            self._server.stop()
            self._server.wait()
        worker.join()
        talk.join(TALK_ENDS_S)
        LOG.info('%s %s has stopped; %s.', self.title, self._conf.host,
                 self.remains)
        self._end()
        return 0

    def _start(self) -> None:
        """Start the threads of the subclass."""

    def _end(self) -> None:
        """Stop those that must not end before the worker."""

    def _listen(self, listening: threading.Event) -> None:
        """Receive notifications, once the broker can be reached."""
        try:
            self._server.start()
        except Exception:
            LOG.exception('The controller cannot wake this agent up: changes '
                          'are fetched every %s s.', self._link.interval_s)
        else:
            listening.set()
