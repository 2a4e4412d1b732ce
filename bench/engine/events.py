# SPDX-License-Identifier: Apache-2.0
"""What happens while traffic flows, as a scenario declares it."""

from collections.abc import Callable
import concurrent.futures
import contextlib
import dataclasses
import time

from bench import errors
from bench.beds import interface as beds
from bench.engine import context as contexts
from bench.scenarios import model
from bench.software import interface as software

# An event that began so much later than asked for, or took so long, is marked.
LATE_S = 0.1


class Script:
    """Events of one measurement; what they broke is whole again at the end.

    Each has a thread of its own, so that one that takes long makes no other
    one late.

    :ivar done: (seconds since the traffic began, what).
    :ivar marks: of events that were late, or took long.
    """

    def __init__(self, context: contexts.Context):
        self._context = context
        self._events = context.variant.events
        self._repairs = contextlib.ExitStack()
        self._pool = concurrent.futures.ThreadPoolExecutor(
            max(1, len(self._events)))
        self._running: list[concurrent.futures.Future[None]] = []
        self._services = list(context.services)
        self._spares = list(context.spares)
        self.done: list[tuple[float, str]] = []
        self.marks: list[str] = []

    def __enter__(self) -> 'Script':
        if self._events and self._context.bed.counts_instructions:
            raise errors.BenchError(
                f'{self._context.variant.name}: bed '
                f'{self._context.bed.name} counts instructions: events '
                "happen by this machine's clock, which its traffic does not "
                'follow')
        # What takes time is done before traffic flows.
        for event in self._events:
            if event.do == 'member_dies':
                host = self._host_of(event)
                for link in host.interfaces.values():
                    self._repairs.callback(_routes_back(host, link.name))
        return self

    def __exit__(self, *unused: object) -> None:
        with self._repairs:
            self._pool.shutdown(wait=True)

    def play(self) -> None:
        """All events at their times; to be called as traffic begins."""
        begin = time.monotonic()
        for event in self._events:
            time.sleep(max(0.0, begin + event.at - time.monotonic()))
            at = time.monotonic() - begin
            self.done.append((at, event.text()))
            if at - event.at > LATE_S:
                self.marks.append(f'event late: {event.text()} at {at:.2f} s '
                                  f'in place of {event.at:g} s')
            self._running.append(self._pool.submit(self._timed, event))

    def check(self) -> None:
        """Wait for their end.

        :raises BenchError: one failed, or has not happened.
        """
        for one in self._running:
            one.result()
        if len(self.done) < len(self._events):
            missing = self._events[len(self.done)]
            raise errors.BenchError(
                f'{self._context.variant.name}: traffic ended before '
                f'"{missing.text()}" at {missing.at} s')

    def do(self, event: model.Event) -> None:
        """At once, and wait until it is done."""
        self._do(event)

    def _timed(self, event):
        begin = time.monotonic()
        self._do(event)
        took = time.monotonic() - begin
        # Of nodes it has the time in it until routes leave them out.
        if took > LATE_S and not event.do.startswith('node_'):
            self.marks.append(f'event late: {event.text()} took {took:.2f} s')

    def _do(self, event):
        getattr(self, f'_{event.do}')(event)

    def _member_dies(self, event):
        """Its host loses its links: from here on nothing arrives there."""
        host = self._host_of(event)
        lines = [f'link set dev {link.name} down'
                 for link in host.interfaces.values()]
        host.run(['ip', '-batch', '-'], stdin='\n'.join(lines) + '\n')

    def _host_of(self, event):
        member = self._services[0].members[event.member - 1]
        return self._context.bed.hosts[member.host]

    def _member_added(self, event):
        """All services get one of the spare members."""
        spare = self._spares.pop(0)
        self._services = [dataclasses.replace(
            one, members=(*one.members, spare)) for one in self._services]
        self._update(self._services)

    def _health_changes(self, event):
        for service in self._services[:event.services or None]:
            self._set_health(
                service, service.members[event.member - 1].address, event.up)

    def _table_update(self, event):
        """Services lose their last member, and get it back at once."""
        changed = self._services[:event.services or None]
        self._update([dataclasses.replace(one, members=one.members[:-1])
                      for one in changed])
        self._update(changed)

    def _node_stops(self, event):
        self._context.deployment.stop_node(self._node(event))

    def _node_starts(self, event):
        self._context.deployment.start_node(self._node(event))

    def _node(self, event):
        nodes = self._context.bed.by_role(beds.LOAD_BALANCER)
        if event.node > len(nodes):
            raise errors.BenchError(
                f'{self._context.variant.name}: node {event.node}: bed '
                f'{self._context.bed.name} has {len(nodes)} load balancers')
        return nodes[event.node - 1].name

    def _update(self, wanted):
        """At once where the software can, else one by one."""
        deployment = self._context.deployment
        if isinstance(deployment, software.UpdatesInBulk):
            deployment.set_services(wanted)
        else:
            for service in wanted:
                deployment.set_members(service)

    def _set_health(self, *arguments):
        deployment = self._context.deployment
        if not isinstance(deployment, software.TakesHealth):
            raise errors.BenchError(
                f'{self._context.variant.name}: {self._context.software.name} '
                'takes no results of health checks')
        deployment.set_health(*arguments)


def _routes_back(host: beds.Host, link: str) -> Callable[[], None]:
    """Puts an interface up again, with its addresses and routes of now.

    Linux removes routes when an interface goes down, and IPv6 addresses.
    """
    host.run(['sysctl', '-qw', f'net.ipv6.conf.{link}.keep_addr_on_down=1'])
    lines = [f'-{version} route replace {line} dev {link}'
             for version in (4, 6)
             for line in host.run(['ip', f'-{version}', 'route', 'show', 'dev',
                                   link]).stdout.splitlines()
             if 'proto kernel' not in line]

    def repair():
        host.run(['ip', 'link', 'set', link, 'up'])
        for line in lines:
            # Not "-batch": it knows no family by line.
            host.run(['ip', *line.split()])
    return repair
