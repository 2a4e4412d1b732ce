# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-proxy-agent in a process with a controller that reads a file.

Started as a program: ``proxy_agent.py CONTROL --config-file FILE``. CONTROL is
a directory: ``wanted.json`` holds what there is to be fetched,
``reported.json`` what was reported, ``secrets`` has a directory with files for
each load balancer. Without ``wanted.json`` the controller does not answer.
"""

import dataclasses
import json
import os
import pathlib
import sys

import oslo_messaging

from octavia_xdp_provider.cmd import process
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.proxy.agent import parts
from octavia_xdp_provider.proxy.agent import service


class Controller:
    """The interface for nodes, from a file."""

    target = oslo_messaging.Target(namespace=rpc.NODES_NAMESPACE,
                                   version=rpc.NODES_VERSION)

    def __init__(self, directory):
        self._wanted = pathlib.Path(directory, 'wanted.json')
        self._reported = pathlib.Path(directory, 'reported.json')
        self._held, self._counters, self._state = {}, {}, None

    def _read(self):
        return json.loads(self._wanted.read_bytes())

    def fetch(self, context, host, since, after):
        wanted = self._read()
        return {'as_of': wanted['as_of'], 'removed': wanted['removed'],
                'changed': [entry for entry in wanted['entries']
                            if entry['generation'] > since],
                'more': None, 'compare': False}

    def compare(self, context, host, after):
        wanted = self._read()
        return {'as_of': wanted['as_of'], 'more': None, 'generations': {
            entry['id']: entry['generation'] for entry in wanted['entries']}}

    def documents(self, context, host, ids):
        return [entry for entry in self._read()['entries']
                if entry['id'] in ids]

    def report(self, context, host, epoch, seq, report):
        self._held.update(report['held'])
        self._counters.update(report['counters'])
        for key in report['gone']:
            self._held.pop(key, None)
        self._state = report['state'] or self._state
        new = self._reported.with_suffix('.new')
        new.write_text(json.dumps({
            'held': self._held, 'state': self._state,
            'counters': self._counters,
            'process': os.getpid(), 'as_of': report['as_of']}))
        new.rename(self._reported)
        return {'taken': True, 'epoch': epoch, 'seq': seq}


class Secrets(parts.NoSecrets):
    """Files of a directory for each load balancer."""

    def __init__(self, directory):
        self._directory = pathlib.Path(directory, 'secrets')

    def files(self, load_balancer_id, hashes):
        directory = self._directory / load_balancer_id
        if not directory.exists():
            raise parts.Missing('its certificates are yet to come')
        return {path.name: path.read_bytes() for path in directory.iterdir()}


def main():
    directory = sys.argv.pop(1)

    class Agent(service.ProxyAgent):

        def _make_parts(self):
            return dataclasses.replace(super()._make_parts(),
                                       secrets=Secrets(directory))

    def make(conf):
        rpc.server(rpc.transport(conf), rpc.CONTROLLER_TOPIC, 'controller',
                   [Controller(directory)]).start()
        return Agent(conf)
    return process.run('octavia-xdp-proxy-agent', make)


if __name__ == '__main__':
    sys.exit(main())
