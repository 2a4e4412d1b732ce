# SPDX-License-Identifier: Apache-2.0
"""RPC calls of hypervisors' agents: fetch the wanted state, report the actual
one."""

from collections.abc import Callable
import json
from typing import Annotated
from typing import Any

from oslo_config import cfg
import oslo_messaging
import pydantic

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import host_messages
from octavia_xdp_provider.contracts import host_rpc
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import shape
from octavia_xdp_provider.controller.store import queries

_FETCH = shape.arguments(host=messages.Host, since=messages.Integer,
                         after=host_messages.Id | None)
_DOCUMENTS = shape.arguments(
    host=messages.Host, ids=Annotated[
        list[host_messages.Id],
        pydantic.Field(max_length=host_messages.DOCUMENTS_PAGE)])
_REPORT = shape.arguments(host=messages.Host, epoch=messages.Integer,
                          seq=messages.Integer, report=host_messages.Report)
_FLOWS = shape.arguments(host=messages.Host, port=host_messages.Id,
                         flows=host_messages.Flows)


class HostsEndpoint:
    """RPC endpoint of the hypervisors.

    All arguments are validated first. A compromised agent sees and changes
    only rows of its own hypervisor.

    :raises Refused: by each method, if arguments are malformed or the
        hypervisor is not registered.
    """

    target = oslo_messaging.Target(namespace=host_rpc.HOSTS_NAMESPACE,
                                   version=host_rpc.VERSION)

    def __init__(self, conf: cfg.ConfigOpts, store: queries.Store,
                 reported: Callable[[], object],
                 pass_on: Callable[[str, str, list[host_messages.Flow]],
                                   object] = lambda host, port, flows: None
                 ) -> None:
        """:param reported: called when a report has changed something.

        :param pass_on: called with a hypervisor, a port's id and flows for
            it; must not block.
        """
        self._pass_on = pass_on
        self._common = {
            'networks': list(conf.zero_touch.node_networks),
            'peers': list(conf.zero_touch.host_networks)}
        if conf.zero_touch.proxy_networks:
            self._common['proxies'] = list(conf.zero_touch.proxy_networks)
        self._refused = None if self._common['networks'] else (
            '[zero_touch] node_networks of the controllers is not set, so '
            'that no LB node is known whose packets may be accepted')
        self._store = store
        self._reported = reported

    def fetch(self, context: object, host: str, since: int,
              after: str | None = None) -> dict[str, Any]:
        """See Hypervisors.host_changes."""
        _FETCH.check({'host': host, 'since': since, 'after': after})
        if self._refused:
            self._store.hypervisors.generations(host, limit=1)
            answer = {'as_of': since, 'changed': [], 'removed': [],
                      'more': None, 'compare': False}
        else:
            answer = self._store.hypervisors.changes(host, since, after)
        self._store.hypervisors.heartbeat(host)
        return {**answer, 'common': self._common, 'refused': self._refused}

    def compare(self, context: object, host: str, after: str | None = None
                ) -> host_messages.CompareAnswer:
        """See Hypervisors.host_generations."""
        _FETCH.check({'host': host, 'since': 0, 'after': after})
        return self._store.hypervisors.generations(host, after)

    def documents(self, context: object, host: str, ids: list[str]
                  ) -> list[host_messages.Entry]:
        """See Hypervisors.host_documents."""
        _DOCUMENTS.check({'host': host, 'ids': ids})
        return self._store.hypervisors.documents(host, ids)

    def report(self, context: object, host: str, epoch: int, seq: int,
               report: host_messages.Report) -> host_messages.ReportAnswer:
        """Store an agent's report (host_messages.Report)."""
        _REPORT.check({'host': host, 'epoch': epoch, 'seq': seq,
                       'report': report})
        _check_size('state', report['state'])
        taken = self._store.host_reports.take(host, epoch, seq, report)
        if taken.news:
            self._reported()
        return taken.answer

    def flows(self, context: object, host: str, port: str,
              flows: list[host_messages.Flow]) -> bool:
        """Pass on flows of a port that has moved away (host_messages.Flow).

        Only flows of the hypervisor's own keys are passed on, and only to
        hypervisors that have the same port.
        """
        _FLOWS.check({'host': host, 'port': port, 'flows': flows})
        targets = self._store.ways.flow_targets(host, port)
        for target, keys in targets.items():
            known: list[host_messages.Flow] = [
                {**flow, 'key': keys[flow['key']]} for flow in flows
                if flow['key'] in keys]
            if known:
                self._pass_on(target, port, known)
        return bool(targets)


def _check_size(name: str, value: object) -> None:
    """:raises Refused: the value is too long."""
    size = len(json.dumps(value))
    if size > messages.STATE_BYTES_MAX:
        raise errors.Refused(f'report.{name}', f'it has {size} bytes',
                             f'use at most {messages.STATE_BYTES_MAX}')
