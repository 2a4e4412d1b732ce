# SPDX-License-Identifier: Apache-2.0
"""A node that starts empty, and an idle one."""

import contextlib
import re
import shutil
import time

from bench.control import figures
from bench.control import octavia
from lab import processes
from lab.fabric import nodes
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.node import datapath

NODE = 'lb2'
POLL_S = 0.02
# A debug line of the agent.
_PASS = re.compile(r'A pass over (\d+) load balancers with (\d+) changed '
                   r'took ([\d.]+) ms of CPU')


def cold(cluster):
    """Time from the start of a node's processes to complete tables."""
    lab, wanted = cluster.lab, len(cluster.ids)
    nodes.kill(lab, NODE)
    shutil.rmtree(nodes.pin_directory(lab, NODE))
    directory = nodes.run_directory(lab, NODE)
    for path in directory.iterdir():
        if path.name == 'bpf':
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    began = time.monotonic()
    nodes.start(lab, NODE)
    forwarding = _when(lambda: _services(cluster) >= wanted)
    reader = announcements.Announcements(directory, [])
    announced = _when(lambda: _announced(reader) >= wanted)
    return {'seconds': round(forwarding - began, 2)}, {
        'load_balancers': wanted,
        'announced_s': round(announced - began, 2)}


def _services(cluster):
    """Return the number of services whose members take traffic."""
    try:
        with cluster.tables(NODE) as tables:
            return sum(1 for summary in tables.summaries().values()
                       if summary.enabled)
    except (datapath.DatapathError, OSError):
        return 0  # there are no tables yet


def _announced(reader):
    status = reader.status()
    return len(status.announced) if status and status.sessions_up else 0


def _when(condition):
    deadline = time.monotonic() + octavia.PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise octavia.Failed(f'{NODE} does not have all in '
                                 f'{octavia.PATIENCE_S} s')
        time.sleep(POLL_S)
    return time.monotonic()


def idle(cluster, seconds):
    """Measure CPU of passes without changes, and of the whole agent."""
    process = processes.find(cluster.lab, nodes.name(NODE, nodes.AGENT))
    with contextlib.closing(open(process.log, errors='replace')) as log:
        log.seek(0, 2)
        before = figures.cpu_s(process.pid)
        time.sleep(seconds)
        used = figures.cpu_s(process.pid) - before
        passes = [match for match in map(_PASS.search, log) if match]
    idle_ms = [float(match[3]) for match in passes if match[2] == '0']
    if not idle_ms:
        raise octavia.Failed(f'no idle pass in {seconds} s')
    return {'cpu_ms': round(figures.percentile(idle_ms, 50), 1)}, {
        'load_balancers': int(passes[-1][1]), 'passes': len(idle_ms),
        'worst_ms': max(idle_ms),
        'agent_cores': round(used / seconds, 3)}
