# SPDX-License-Identifier: Apache-2.0
"""Runs the health checker for a while, over targets that are all up."""

import contextlib
import signal
import subprocess
import sys
import time
import urllib.request

from bench.control import figures
from bench.hc import programs as targets
from bench.hc import space
from octavia_xdp_provider.health import queue_directory
from octavia_xdp_provider.health import queue_file

METRICS = '127.0.0.1:9105'
LATENESS = 'lateness_seconds_bucket{'


def run(asked):
    """Probe all targets every `delay` seconds."""
    kind, count, delay = (asked.settings[name] for name in (
        'protocol', 'targets', 'delay'))
    space.prepare()
    programs = targets.Programs()
    with space.mounted('tmpfs') as folder, programs.server(kind, 2):
        queue = folder / 'queue'
        queue.mkdir()
        checks = folder / 'checks.json'
        targets.write_checks(checks, kind, count, delay)
        with (folder / 'log').open('w') as log:
            child = subprocess.Popen(
                [programs.checker, 'run', '--checks', checks,
                 '--queue', queue, '--metrics', METRICS,
                 '--log-level', 'warn'], stderr=log)
        try:
            values = _watch(child, queue, count, delay, asked.seconds)
        except Exception:
            sys.stderr.write((folder / 'log').read_text()[-4000:])
            raise
        finally:
            child.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(20)
            child.kill()
            child.wait()
    settings = {name: values.pop(name) for name in ('delay_s', 'seconds')}
    return values, {**values, **settings}


def _watch(child, queue, count, delay, seconds):
    directory = queue_directory.QueueDirectory(queue, f'{queue}.rejected')
    downs = 0
    begin = time.monotonic()
    # After two whole intervals everything has been probed and is up.
    start, end = begin + 2 * delay + 2, begin + 2 * delay + 2 + seconds
    at_start = None
    while time.monotonic() < end:
        downs += _drain(directory)
        if at_start is None and time.monotonic() >= start:
            at_start = (time.monotonic(), figures.cpu_s(child.pid), _scrape())
        time.sleep(0.05)
    then, cpu, metrics = at_start
    now, cpu_now = time.monotonic(), figures.cpu_s(child.pid)
    metrics_now = _scrape()
    peak, resident = status(child.pid, 'VmHWM'), status(child.pid, 'VmRSS')
    time.sleep(2)
    downs += _drain(directory)
    snapshot = directory.snapshot()
    up = sum(queue_file.state_of(verdict) == queue_file.State.UP
             for verdict in snapshot.columns.verdicts)
    return {
        'conditions': count, 'delay_s': delay, 'seconds': now - then,
        'cores': (cpu_now - cpu) / (now - then),
        'cpu_us_per_probe':
            1e6 * (cpu_now - cpu) / (now - then) / (count / delay),
        'false_downs': downs, 'not_up_at_the_end': count - up,
        'rss_mb': peak / 1024, 'rss_at_the_end_mb': resident / 1024,
        'stretch_percent': snapshot.stretch_percent,
        **_lateness(metrics, metrics_now)}


def _drain(directory):
    """Consume deltas like the handler; return how many checks went down."""
    downs = 0
    for path in directory.pending():
        delta = directory.read(path)
        downs += sum(queue_file.state_of(verdict) == queue_file.State.DOWN
                     for verdict in delta.columns.verdicts)
        directory.remove(path)
    return downs


def status(pid, name):
    """Return a number of /proc/PID/status, as of kilobytes."""
    with open(f'/proc/{pid}/status') as file:
        for line in file:
            if line.startswith(name + ':'):
                return int(line.split()[1])
    raise RuntimeError(f'no {name}')


def _scrape():
    """Return the checker's metrics by name."""
    with urllib.request.urlopen(f'http://{METRICS}/metrics',
                                timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    samples = {}
    for line in lines:
        if line and not line.startswith('#'):
            name, _, value = line.rpartition(' ')
            samples[name] = float(value)
    return samples


def _lateness(before, after):
    """Return percentiles of lateness from the histogram of a time span."""
    buckets = []
    for name, value in after.items():
        if LATENESS in name:
            bound = name.split('le="')[1].split('"')[0]
            buckets.append((float(bound), value - before.get(name, 0)))
    buckets.sort()
    if not buckets or not buckets[-1][1]:
        raise RuntimeError('no histogram of the lateness')
    return {f'late_p{percent}_ms': _quantile(buckets, percent / 100)
            for percent in (50, 99)}


def _quantile(buckets, share):
    """Interpolate linearly within a bucket, as Prometheus does; in ms."""
    wanted = share * buckets[-1][1]
    low, below = 0.0, 0.0
    for bound, value in buckets:
        if value >= wanted:
            if bound == float('inf'):
                return 1000 * low
            inside = (wanted - below) / (value - below) if value > below else 0
            return 1000 * (low + inside * (bound - low))
        low, below = bound, value
    return 1000 * low
