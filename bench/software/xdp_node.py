# SPDX-License-Identifier: Apache-2.0
"""The part of xdp.py that runs on a load balancer, as a program.

It imports the product's binding of the library but nothing of the benchmarks,
since real machines have only what the operator has installed.

It runs in a separate mount namespace with a private BPF file system, so that
tables and program vanish when it ends for whatever reason. Calls are lines of
JSON on standard input, each answered by a line on standard output, until the
input ends.
"""

import functools
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time

from octavia_xdp_provider.node import datapath

# Seconds between two ticks, as in the result handler.
TICK_S = 1.0


class Node:
    """The calls, by name."""

    def __init__(self, folder: pathlib.Path):
        self._pins = folder / 'bpf' / 'octavia-xdp'
        self._lock_file = folder / 'lock'
        self._datapath: datapath.Datapath | None = None
        self._lock = threading.Lock()

    def create(self, *, library, services_max, members_max, flows_max,
               interfaces, uplinks, settings):
        """Create the state, attach the program and set uplinks."""
        self._datapath = datapath.Datapath(
            str(self._pins), str(self._lock_file), create=True,
            services_max=services_max, members_max=members_max,
            flows_max=flows_max, library=library)
        for name in interfaces:
            self._datapath.attach(socket.if_nametoindex(name))
        self.uplinks(uplinks=uplinks)
        flags = functools.reduce(
            lambda flags, name: flags | datapath.NodeFlag[name],
            settings.pop('flags'), datapath.NodeFlag(0))
        self._datapath.set_node(
            datapath.NodeSettings(flags=flags, **settings))
        threading.Thread(target=self._tick, daemon=True).start()

    def uplinks(self, *, uplinks):
        """Set uplinks; without any, packets are dropped and counted."""
        self._datapath.set_uplinks(
            datapath.Uplink(socket.if_nametoindex(name), **uplink)
            for name, uplink in uplinks.items())

    def services(self, *, services):
        """Set services with their members, in bulk."""
        wanted = {}
        for address, protocol, port, settings, members in services:
            wanted[datapath.Key(address, protocol, port)] = (
                _settings(**settings), [
                    datapath.Member(**member) for member in members])
        with self._lock:
            _changed, refused = self._datapath.set_services(wanted)
        for key, error in refused.items():
            raise ValueError(f'{key.address} {key.protocol} {key.port}: '
                             f'{error}')

    def health(self, *, results):
        """Apply results of health checks: (check, whether it is up)."""
        with self._lock:
            self._datapath.apply_health(
                [(check, up) for check, up in results])

    def process(self):
        """Return the id of this process."""
        return os.getpid()

    def map_bytes(self):
        """Return the size of the tables."""
        return self._datapath.info().map_bytes

    def packets(self):
        """Return packets forwarded to members, by VIP."""
        packets = {}
        for key, summary in self._datapath.summaries().items():
            packets[key.address] = (packets.get(key.address, 0)
                                    + summary.packets)
        return packets

    def outcomes(self):
        """Return packets by outcome, except those just forwarded or passed."""
        return {outcome.name: counters.packets
                for outcome, counters in self._datapath.outcomes().items()
                if counters.packets}

    def _tick(self):
        while True:
            time.sleep(TICK_S)
            with self._lock:
                self._datapath.tick()


def _settings(encapsulation, flags, **others):
    allowed = datapath.ServiceFlag(0)
    for name in flags:
        allowed |= datapath.ServiceFlag[name]
    return datapath.Settings(
        encapsulation=datapath.Encapsulation[encapsulation], flags=allowed,
        **others)


def serve(node, calls, answers):
    """Answer until the calls end."""
    for line in calls:
        call = json.loads(line)
        try:
            answer = {'result': getattr(node, call.pop('call'))(**call)}
        except Exception as error:  # any error is reported to the caller
            answer = {'error': f'{type(error).__name__}: {error}'}
        answers.write(json.dumps(answer) + '\n')
        answers.flush()


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    # Both exist in this mount namespace only, and vanish with it.
    subprocess.run(['mount', '-t', 'tmpfs', 'tmpfs', folder], check=True)
    (folder / 'bpf').mkdir()
    subprocess.run(['mount', '-t', 'bpf', 'bpf', folder / 'bpf'], check=True)
    serve(Node(folder), sys.stdin, sys.stdout)


if __name__ == '__main__':
    main()
