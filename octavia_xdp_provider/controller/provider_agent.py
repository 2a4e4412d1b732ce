# SPDX-License-Identifier: Apache-2.0
"""Runs the controller as a provider agent of octavia-driver-agent.

octavia-driver-agent restarts a provider agent that raises, but not one
that was killed, and it forks without exec. So the provider agent is only a
supervisor: it runs ``octavia-xdp-controller`` as a child process and restarts
it whenever it ends, until octavia-driver-agent stops. Under a second
supervisor it runs the preloaded listeners (preloaded_listeners.py), which need
the modules and configuration that octavia-driver-agent has loaded.
"""

import multiprocessing
from multiprocessing import synchronize
import signal
import sys

from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.config import options
from octavia_xdp_provider.controller import preloaded_listeners
from octavia_xdp_provider.process import supervisor

# A controller ends at once with a broken configuration, for example.
BACKOFF = supervisor.Backoff(first_s=0.5, max_s=30.0)
COMMAND = (sys.executable, '-m', 'octavia_xdp_provider.cmd.controller')


def xdp_provider_agent(exit_event: synchronize.Event) -> None:
    """Entry point of ``octavia.driver_agent.provider_agents``.

    The controller must not outlive its supervisor, nor the supervisor
    octavia-driver-agent, as a second one would be started.
    """
    parent = supervisor.parent_process()
    if not supervisor.die_with_parent(signal.SIGTERM, parent):
        return
    _start_listeners(exit_event)
    supervisor.Supervisor(
        'octavia-xdp-controller', supervisor.command(list(COMMAND)),
        backoff=BACKOFF, death_signal=signal.SIGTERM,
        restart_after_success=True, stop=exit_event).run()


def _start_listeners(exit_event: synchronize.Event) -> None:
    try:
        sockets = preloaded_listeners.paths(options.load())
    except option_values.ConfigurationError:
        return  # The controller does not start either, and logs the reason.
    if sockets:
        multiprocessing.get_context('fork').Process(
            target=_run_listeners, args=(sockets, exit_event)).start()


def _run_listeners(sockets: dict[str, str], exit_event: synchronize.Event
                   ) -> None:
    if not supervisor.die_with_parent(signal.SIGTERM,
                                      supervisor.parent_process()):
        return
    supervisor.Supervisor(
        'preloaded listeners',
        lambda: preloaded_listeners.serve(sockets, exit_event),
        backoff=BACKOFF,
        restart_after_success=True, stop=exit_event).run()
