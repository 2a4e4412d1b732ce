# SPDX-License-Identifier: Apache-2.0
"""TRex's stateless API: JSON-RPC 2.0, by the specification of its RPC server
(https://trex-tgn.cisco.com/trex/doc/trex_rpc_server_spec.html)."""

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
    """A port of TRex, acquired until the session is closed.

    :raises BenchError: TRex is not running, or its port is in use.
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
            answer = json.loads(self._process.line(SECONDS))
        except (EOFError, subprocess.TimeoutExpired, ValueError) as error:
            raise errors.BenchError(
                f'{self._where} does not answer: {error}') from None
        if isinstance(answer, dict) and 'failed' in answer:
            raise errors.BenchError(f'{self._where}: {answer["failed"]}')
        return answer

    def _call_once(self, method: str, parameters: dict) -> dict:
        self._number += 1
        if self._api is not None:
            parameters = {**parameters, 'api_h': self._api}
        self._process.write(json.dumps({
            'jsonrpc': '2.0', 'id': self._number, 'method': method,
            'params': parameters}) + '\n')
        answer = self._line()
        if not isinstance(answer, dict) or answer.get('id') != self._number:
            raise errors.BenchError(
                f'{self._where} answers {method} with something else: '
                f'{answer}')
        return answer

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method and return the result.

        :raises BenchError: TRex refuses the call or stays busy.
        """
        end = time.monotonic() + SECONDS
        answer = self._call_once(method, parameters)
        while answer.get('error', {}).get('code') in (TRY_AGAIN, IN_PROGRESS):
            if time.monotonic() > end:
                raise errors.BenchError(f'{self._where} stays busy: {method}')
            time.sleep(LOOK_SECONDS)
            if answer['error']['code'] == IN_PROGRESS:
                answer = self._call_once('get_async_results', {
                    'ticket_id': int(answer['error']['specific_err'])})
            else:
                answer = self._call_once(method, parameters)
        if 'error' in answer:
            error = answer['error']
            raise errors.BenchError(
                f'{self._where} refuses {method}: '
                f'{error.get("specific_err") or error.get("message")}')
        return answer['result']

    def own(self, method: str, **parameters: Any) -> Any:
        """Make a call that requires the acquired port."""
        return self.call(method, port_id=self._port, handler=self._handler,
                         **parameters)

    def sent(self) -> int:
        """Return the packets that the port has sent since TRex started."""
        return int(self.call('get_port_stats', port_id=self._port)['opackets'])

    def wait_until_sent(self, seconds: float) -> None:
        """Wait until the port has stopped sending.

        :raises BenchError: it still sends after that time.
        """
        end = time.monotonic() + seconds
        while self.call('get_port_status', port_id=self._port)[
                'state'] == 'TX':
            if time.monotonic() > end:
                raise errors.BenchError(
                    f'{self._where} still sends after {seconds:.0f} seconds')
            time.sleep(LOOK_SECONDS)
