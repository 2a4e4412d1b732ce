# SPDX-License-Identifier: Apache-2.0
"""The controller as a provider agent of octavia-driver-agent.

octavia-driver-agent restarts a provider agent that raises, but not one
that was killed, and it forks without exec. So the provider agent is only a
small supervisor: it runs ``octavia-xdp-controller`` as a child process and
starts it again whenever it ends, until octavia-driver-agent stops.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

# Seconds before a controller that ended is started again; doubles up to
# the maximum while it ends at once, as with a broken configuration.
RESTART_DELAY = 0.5
RESTART_DELAY_MAX = 30.0
STABLE_AFTER = 10.0
STOP_TIMEOUT = 10.0

PR_SET_PDEATHSIG = 1


def _die_with_parent():
    """End this process when its parent does, however that dies.

    Neither the controller may outlive its supervisor nor the supervisor
    octavia-driver-agent: a second one would be started beside it.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def xdp_provider_agent(exit_event):
    """Entry point of ``octavia.driver_agent.provider_agents``."""
    parent = os.getppid()
    _die_with_parent()
    if os.getppid() != parent:
        return
    delay = RESTART_DELAY
    while not exit_event.is_set():
        started = time.monotonic()
        child = subprocess.Popen(
            [sys.executable, '-m', 'octavia_xdp_provider.cmd.controller'],
            preexec_fn=_die_with_parent)
        LOG.info('Started octavia-xdp-controller with pid %s.', child.pid)
        while child.poll() is None and not exit_event.wait(0.2):
            pass
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            return
        if time.monotonic() - started > STABLE_AFTER:
            delay = RESTART_DELAY
        LOG.error('octavia-xdp-controller ended with status %s; starting it '
                  'again in %s s.', child.returncode, delay)
        exit_event.wait(delay)
        delay = min(delay * 2, RESTART_DELAY_MAX)
