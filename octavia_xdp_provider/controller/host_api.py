# SPDX-License-Identifier: Apache-2.0
"""RPC calls of hypervisors' agents: fetch the wanted state, report the actual
one."""

import json
from typing import Annotated

import oslo_messaging
import pydantic

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import host_messages
from octavia_xdp_provider.contracts import host_rpc
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import shape

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

    def __init__(self, conf, store, reported,
                 pass_on=lambda host, port, flows: None):
        """:param reported: called when a report has changed something.

        :param pass_on: called with a hypervisor, a port's id and flows for
            it; must not block.
        """
        self._pass_on = pass_on
        self._common = {
            'networks': list(conf.zero_touch.node_networks),
            'peers': list(conf.zero_touch.host_networks)}
        self._refused = None if self._common['networks'] else (
            '[zero_touch] node_networks of the controllers is not set, so '
            'that no LB node is known whose packets may be accepted')
        self._store = store
        self._reported = reported

    def fetch(self, context, host, since, after=None):
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

    def compare(self, context, host, after=None):
        """See Hypervisors.host_generations."""
        _FETCH.check({'host': host, 'since': 0, 'after': after})
        return self._store.hypervisors.generations(host, after)

    def documents(self, context, host, ids):
        """See Hypervisors.host_documents."""
        _DOCUMENTS.check({'host': host, 'ids': ids})
        return self._store.hypervisors.documents(host, ids)

    def report(self, context, host, epoch, seq, report):
        """Store an agent's report (host_messages.Report)."""
        _REPORT.check({'host': host, 'epoch': epoch, 'seq': seq,
                       'report': report})
        _check_size('state', report['state'])
        taken = self._store.host_reports.take(host, epoch, seq, report)
        if taken.news:
            self._reported()
        return taken.answer

    def flows(self, context, host, port, flows):
        """Pass on flows of a port that has moved away (host_messages.Flow).

        Only flows of the hypervisor's own keys are passed on, and only to
        hypervisors that have the same port.
        """
        _FLOWS.check({'host': host, 'port': port, 'flows': flows})
        targets = self._store.ways.flow_targets(host, port)
        for target, keys in targets.items():
            known = [{**flow, 'key': keys[flow['key']]} for flow in flows
                     if flow['key'] in keys]
            if known:
                self._pass_on(target, port, known)
        return bool(targets)


def _check_size(name, value):
    """:raises Refused: the value is too long."""
    size = len(json.dumps(value))
    if size > messages.STATE_BYTES_MAX:
        raise errors.Refused(f'report.{name}', f'it has {size} bytes',
                             f'use at most {messages.STATE_BYTES_MAX}')
