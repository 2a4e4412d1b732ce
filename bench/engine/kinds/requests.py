# SPDX-License-Identifier: Apache-2.0
"""What users feel: plain clients, and plain servers on the members."""

import concurrent.futures

from bench.beds import interface as beds
from bench.engine import clients
from bench.engine import context as contexts
from bench.engine import figures
from bench.results import model as results
from bench.scenarios import model
from bench.traffic import servers
from bench.traffic.clients import catalog
from bench.traffic.clients import result

NEEDS_SOURCE = False
# Seconds, beyond those of requests.
_PATIENCE_S = 30


def seconds(measure: model.Measure) -> float:
    return measure.seconds + 3


def run(context: contexts.Context) -> list[figures.Figure]:
    measure = context.measure
    client = _client(measure)
    service = context.services[0]
    hosts = context.bed.by_role(beds.GENERATOR)
    with _servers(context), clients.at(hosts, service.vip):
        for host in hosts:
            client.prepare(host)
        before = context.deployment.cpu_seconds()
        with concurrent.futures.ThreadPoolExecutor(len(hosts)) as pool:
            running = [pool.submit(host.run, client.command(
                host, service.vip, service.port, measure.seconds),
                timeout=measure.seconds + _PATIENCE_S) for host in hosts]
            done = result.together([
                client.parse(host, one.result().stdout)
                for host, one in zip(hosts, running, strict=True)])
        used = context.deployment.cpu_seconds() - before
        memory = context.deployment.memory_bytes()
    return _figures(context, client.unit, done, used, memory)


def _figures(context, unit, done, used, memory):
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
        figure('memory', 'bytes', results.LOWER, memory)]


def _client(measure):
    if measure.client == 'iperf3':
        return catalog.make('iperf3', streams=measure.connections)
    options = {'connections': measure.connections}
    if measure.client == 'wrk':
        options['keep_alive'] = measure.keep_alive
    return catalog.make(measure.client, **options)


def _servers(context):
    if context.measure.client == 'iperf3':
        return servers.bulk(context.bed, context.services[0])
    return servers.http(context.bed, context.services, context.measure.bytes)
