# SPDX-License-Identifier: Apache-2.0
"""Events that a scenario declares to happen while traffic flows."""

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

# An event that starts this late, or takes this long, is marked.
LATE_S = 0.1


class Script:
    """Events of one measurement; their damage is repaired at the end.

    Each event has its own thread, so that a slow one does not delay others.

    :ivar done: (seconds since the start of traffic, event).
    :ivar marks: of events that were late or took long.
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
        # Prepare repairs before traffic flows, since it takes time.
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
        """Start all events at their times; called as traffic begins."""
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
        """Wait for all events to end.

        :raises BenchError: an event failed or has not happened.
        """
        for event in self._running:
            event.result()
        if len(self.done) < len(self._events):
            missing = self._events[len(self.done)]
            raise errors.BenchError(
                f'{self._context.variant.name}: traffic ended before '
                f'"{missing.text()}" at {missing.at} s')

    def do(self, event: model.Event) -> None:
        """Execute an event now and wait until it is done."""
        self._do(event)

    def _timed(self, event):
        begin = time.monotonic()
        self._do(event)
        took = time.monotonic() - begin
        # Events of nodes include the time until routes exclude the node.
        if took > LATE_S and not event.do.startswith('node_'):
            self.marks.append(f'event late: {event.text()} took {took:.2f} s')

    def _do(self, event):
        getattr(self, f'_{event.do}')(event)

    def _member_dies(self, event):
        """Set the links of its host down, so that nothing arrives there."""
        host = self._host_of(event)
        lines = [f'link set dev {link.name} down'
                 for link in host.interfaces.values()]
        host.run(['ip', '-batch', '-'], stdin='\n'.join(lines) + '\n')

    def _host_of(self, event):
        member = self._services[0].members[event.member - 1]
        return self._context.bed.hosts[member.host]

    def _member_added(self, event):
        """Add a spare member to all services."""
        spare = self._spares.pop(0)
        self._services = [dataclasses.replace(
            service, members=(*service.members, spare))
            for service in self._services]
        self._update(self._services)

    def _health_changes(self, event):
        for service in self._services[:event.services or None]:
            self._set_health(
                service, service.members[event.member - 1].address, event.up)

    def _table_update(self, event):
        """Remove the last member of services and add it again at once."""
        changed = self._services[:event.services or None]
        self._update([dataclasses.replace(
            service, members=service.members[:-1]) for service in changed])
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
        """Update all services at once if the software can, else one by one."""
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
    """Return a function that sets an interface up with its present routes.

    Linux removes routes and, without a sysctl, IPv6 addresses on "down".
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
            # "-batch" does not allow a family for each line.
            host.run(['ip', *line.split()])
    return repair
