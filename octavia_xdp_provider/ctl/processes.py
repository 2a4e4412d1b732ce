# SPDX-License-Identifier: Apache-2.0
"""Which of the node's processes do not work.

Without them tables may be consistent with members and weights, but no longer
follow changes of the members.
"""

import argparse
import os

from octavia_xdp_provider.config import options
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.health import checker_status
from octavia_xdp_provider.node import heartbeat
from octavia_xdp_provider.node import run_directory


def files_of(arguments: argparse.Namespace) -> run_directory.RunDirectory:
    """Return the run directory that the options name.

    :raises ConfigurationError: the configuration file is invalid.
    """
    files = run_directory.RunDirectory(options.load(
        config_files=arguments.config_file, prog='octavia-xdp-ctl'))
    if arguments.lock_file:
        files.directory = os.path.dirname(os.path.abspath(
            arguments.lock_file))
    return files


def problems(files: run_directory.RunDirectory) -> list[str]:
    """Return a text for each process that does not work."""
    texts = [f'{name} stands still: {effect}' for name, path, effect in (
        ('octavia-xdp-agent', files.agent_heartbeat,
         'no change and no uplink is followed'),
        (messages.RESULT_HANDLER, files.handler_heartbeat,
         'no health result gets into the tables'))
        if heartbeat.stands_still(path, float('-inf'))]
    if checker_status.read(files.checker_socket) is None:
        texts.append('octavia-xdp-hc does not answer')
    return texts
