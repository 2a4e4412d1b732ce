# SPDX-License-Identifier: Apache-2.0
"""TRex's stateless API: JSON-RPC 2.0, as its RPC server's specification has
it (https://trex-tgn.cisco.com/trex/doc/trex_rpc_server_spec.html)."""

import contextlib
import getpass
import json
import pathlib
import subprocess
import time
from typing import Any

from bench import errors
from bench.beds import interface

RELAY = pathlib.Path(__file__).with_name('trex_relay.py')
API = {'name': 'STL', 'major': 5, 'minor': 1}
TRY_AGAIN, IN_PROGRESS = -32001, -32002
SECONDS = 60
LOOK_SECONDS = 0.1
START = 'start it there by "t-rex-64 -i --stl"'


class Session:
    """A port of a TRex, which is ours until the session is closed.

    :raises BenchError: there is no TRex, or its port is another's.
    """

    def __init__(self, host: interface.Host, address: str, service: int,
                 port: int, stack: contextlib.ExitStack):
        self._host, self._port = host, port
        self._where = f'{host.name}: TRex at {address}:{service}'
        relay = str(host.put(RELAY, RELAY.name))
        self._process = host.start(
            ['python3', relay, address, str(service)], log='trex-relay.log')
        stack.callback(self._process.stop)
        self._number = 0
        self._api: str | None = None
        self._handler: str | None = None
        try:
            self._line()
        except errors.BenchError as error:
            raise errors.BenchError(f'{error}; {START}') from None
        self._api = self.call('api_sync_v2', **API)['api_h']
        self._handler = self.call('acquire', port_id=port, force=False,
                                  user=getpass.getuser(), session_id=0)
        stack.callback(self._release)

    def _release(self) -> None:
        with contextlib.suppress(errors.BenchError):
            self.own('stop_traffic')
            self.own('remove_all_streams')
            self.own('release')

    def _line(self) -> Any:
        try:
            said = json.loads(self._process.line(SECONDS))
        except (EOFError, subprocess.TimeoutExpired, ValueError) as error:
            raise errors.BenchError(
                f'{self._where} does not answer: {error}') from None
        if isinstance(said, dict) and 'failed' in said:
            raise errors.BenchError(f'{self._where}: {said["failed"]}')
        return said

    def _call_once(self, method: str, parameters: dict) -> dict:
        self._number += 1
        if self._api is not None:
            parameters = {**parameters, 'api_h': self._api}
        self._process.write(json.dumps({
            'jsonrpc': '2.0', 'id': self._number, 'method': method,
            'params': parameters}) + '\n')
        said = self._line()
        if not isinstance(said, dict) or said.get('id') != self._number:
            raise errors.BenchError(
                f'{self._where} answers {method} with something else: {said}')
        return said

    def call(self, method: str, **parameters: Any) -> Any:
        """The result.

        :raises BenchError: TRex refuses, or stays busy.
        """
        end = time.monotonic() + SECONDS
        said = self._call_once(method, parameters)
        while said.get('error', {}).get('code') in (TRY_AGAIN, IN_PROGRESS):
            if time.monotonic() > end:
                raise errors.BenchError(f'{self._where} stays busy: {method}')
            time.sleep(LOOK_SECONDS)
            if said['error']['code'] == IN_PROGRESS:
                said = self._call_once('get_async_results', {
                    'ticket_id': int(said['error']['specific_err'])})
            else:
                said = self._call_once(method, parameters)
        if 'error' in said:
            error = said['error']
            raise errors.BenchError(
                f'{self._where} refuses {method}: '
                f'{error.get("specific_err") or error.get("message")}')
        return said['result']

    def own(self, method: str, **parameters: Any) -> Any:
        """A call that only who has acquired the port may make."""
        return self.call(method, port_id=self._port, handler=self._handler,
                         **parameters)

    def sent(self) -> int:
        """Packets that the port has sent since TRex runs."""
        return int(self.call('get_port_stats', port_id=self._port)['opackets'])

    def wait_until_sent(self, seconds: float) -> None:
        """Until the port has ended what it was to send.

        :raises BenchError: it has not after that time.
        """
        end = time.monotonic() + seconds
        while self.call('get_port_status', port_id=self._port)[
                'state'] == 'TX':
            if time.monotonic() > end:
                raise errors.BenchError(
                    f'{self._where} still sends after {seconds:.0f} seconds')
            time.sleep(LOOK_SECONDS)
