# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-host-agent in a process with a controller that reads a file.

Started as a program: ``host_agent.py CONTROL --config-file FILE``. CONTROL is
a directory: ``wanted.json`` holds what there is to be fetched,
``reported.json`` what was reported. Without ``wanted.json`` the controller
does not answer.
"""

import json
import os
import pathlib
import sys

import oslo_messaging

from octavia_xdp_provider.cmd import process
from octavia_xdp_provider.contracts import host_rpc
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.host import service


class Controller:
    """The interface for hypervisors, from a file."""

    target = oslo_messaging.Target(namespace=host_rpc.HOSTS_NAMESPACE,
                                   version=host_rpc.VERSION)

    def __init__(self, directory):
        self._wanted = pathlib.Path(directory, 'wanted.json')
        self._reported = pathlib.Path(directory, 'reported.json')
        self._held, self._state = {}, None

    def _read(self):
        return json.loads(self._wanted.read_bytes())

    def fetch(self, context, host, since, after):
        wanted = self._read()
        return {'as_of': wanted['as_of'], 'removed': [
                    removed for removed in wanted['removed']
                    if removed not in {
                        entry['id'] for entry in wanted['entries']}],
                'changed': [entry for entry in wanted['entries']
                            if entry['generation'] > since],
                'more': None, 'compare': False, 'common': wanted['common'],
                'refused': wanted['refused']}

    def compare(self, context, host, after):
        wanted = self._read()
        return {'as_of': wanted['as_of'], 'more': None, 'generations': {
            entry['id']: entry['generation'] for entry in wanted['entries']}}

    def documents(self, context, host, ids):
        return [entry for entry in self._read()['entries']
                if entry['id'] in ids]

    def report(self, context, host, epoch, seq, report):
        self._held.update(report['held'])
        for key in report['gone']:
            self._held.pop(key, None)
        self._state = report['state'] or self._state
        new = self._reported.with_suffix('.new')
        new.write_text(json.dumps({
            'held': self._held, 'state': self._state,
            'process': os.getpid(), 'as_of': report['as_of']}))
        new.rename(self._reported)
        return {'taken': True, 'epoch': epoch, 'seq': seq}


def main():
    directory = sys.argv.pop(1)

    def make(conf):
        rpc.server(rpc.transport(conf), host_rpc.CONTROLLER_TOPIC,
                   'controller', [Controller(directory)]).start()
        return service.HostAgent(conf)
    return process.run('octavia-xdp-host-agent', make)


if __name__ == '__main__':
    sys.exit(main())
