# SPDX-License-Identifier: Apache-2.0
"""User experience: plain clients, and plain servers on the members."""

from collections.abc import Sequence
import concurrent.futures
import contextlib

from bench.beds import interface as beds
from bench.engine import clients
from bench.engine import context as contexts
from bench.engine import figures
from bench.results import model as results
from bench.scenarios import model
from bench.software import interface as software
from bench.software import packets
from bench.traffic import servers
from bench.traffic.clients import catalog
from bench.traffic.clients import result

NEEDS_GENERATOR = False
# Seconds in addition to the duration of requests.
_PATIENCE_S = 30


def seconds(measure: model.Measure) -> float:
    return measure.seconds + 3


def run(context: contexts.Context) -> list[figures.Figure]:
    measure = context.measure
    client = catalog.KINDS[measure.client](measure.connections,
                                           measure.keep_alive)
    service = context.services[0]
    hosts = context.bed.by_role(beds.GENERATOR)
    with clients.at(hosts, service.vip):
        for host in hosts:
            client.prepare(host)
        used = -context.deployment.cpu_seconds()
        received = -packets.received(context.bed)
        with concurrent.futures.ThreadPoolExecutor(len(hosts)) as pool:
            running = [pool.submit(host.run, client.command(
                host, service.vip, service.port, measure.seconds),
                timeout=measure.seconds + _PATIENCE_S) for host in hosts]
            # Read memory while connections are open, since they need most of
            # it. Wait by the client's clock, as a guest may have its own.
            hosts[0].run(['sleep', str(measure.seconds / 2)],
                         timeout=measure.seconds + _PATIENCE_S)
            memory = context.deployment.memory_bytes()
            done = result.together([
                client.parse(host, process.result().stdout)
                for host, process in zip(hosts, running, strict=True)])
        used += context.deployment.cpu_seconds()
        received += packets.received(context.bed)
    return _figures(context, client.unit, done, used, received, memory)


def _figures(context, unit, done, used, received, memory):
    details = {'seconds': done.seconds, 'done': done.done,
               'latency_s': done.latency_s, 'failures': done.failures,
               'software': context.details()}

    def figure(part, unit, better, value):
        return figures.Figure(part, unit, better, value, list(done.marks),
                              details=details)
    return [
        figure('', unit, results.HIGHER, done.rate),
        *(figure(name, 's', results.LOWER, done.latency_s[name])
          for name in ('p50', 'p99') if name in done.latency_s),
        figure('cpu', f's/million {unit.partition("/")[0]}', results.LOWER,
               used / done.done * 1e6),
        *([figure('packet_cpu', 's/million packets', results.LOWER,
                  used / received * 1e6)] if received else []),
        figure('memory', 'bytes', results.LOWER, memory)]


def before(bed: beds.Bed, services: Sequence[software.Service],
           measure: model.Measure) -> contextlib.AbstractContextManager[None]:
    """Start servers before load balancers, which check members."""
    if measure.client == 'iperf3':
        return servers.bulk(bed, services[0])
    return servers.http(bed, services, measure.bytes)
