# SPDX-License-Identifier: Apache-2.0
"""Stands in for a TRex: replays a conversation, and sends what it is told.

    python3 trex_stand_in.py SERVICE CONVERSATION INTERFACE MAC LOST

The conversation, JSON, is a list of [method, parameters, answer]; requests
have to come in this order with at least these parameters, or the program ends.
Streams are sent as the field engine's instructions say, each packet whose
number is a multiple of LOST not, though it is counted.
"""

import base64
import json
import socket
import sys

from scapy.layers import inet
from scapy.layers import inet6
from scapy.layers import l2

from bench.traffic import trex_relay


class Engine:
    """A stream and its field engine."""

    def __init__(self, stream):
        self.packet = base64.b64decode(stream['packet']['binary'])
        self.share = stream['mode']['rate']['value']
        self.instructions = stream['vm']['instructions']
        self.values = {each['name']: each['init_value']
                       for each in self.instructions
                       if each['type'] == 'flow_var'}

    def next(self):
        """A frame without MAC addresses, and its number."""
        frame = bytearray(self.packet)
        number = self.values['number']
        for each in self.instructions:
            if each['type'] == 'write_flow_var':
                at = each['pkt_offset']
                frame[at:at + 4] = self.values[each['name']].to_bytes(
                    4, 'big' if each['is_big_endian'] else 'little')
        for each in self.instructions:
            if each['type'] == 'flow_var':
                value = self.values[each['name']] + each['step']
                self.values[each['name']] = (
                    value if value <= each['max_value']
                    else each['min_value'])
        return frame, number

    def fixed(self, frame):
        """With checksums."""
        fix = self.instructions[-1]
        parsed = l2.Ether(bytes(frame))
        ip = parsed.payload
        layer = {11: inet.UDP, 13: inet.TCP}[fix['l4_type']]
        assert (fix['l2_len'], fix['l3_len']) == (
            14, 40 if isinstance(ip, inet6.IPv6) else 20), fix
        if isinstance(ip, inet.IP):
            del ip.chksum
        del ip[layer].chksum
        return bytes(parsed)


class StandIn:

    def __init__(self, conversation, device, mac, lost):
        self.steps = iter(conversation)
        self.device, self.mac, self.lost = device, mac, lost
        self.engines, self.sent = [], 1000

    def answer(self, request):
        method, wanted, answer = next(self.steps)
        got = request['params']
        assert request['jsonrpc'] == '2.0' and request['method'] == method, (
            request, method)
        for name, value in wanted.items():
            assert got.get(name) == value, (method, name, got.get(name), value)
        if method == 'add_stream':
            self.engines.append(Engine(got['stream']))
        if method == 'start_traffic':
            self.send(round(got['mul']['value'] * got['duration']))
        if method == 'get_port_stats':
            answer = {'result': {'opackets': self.sent}}
        return {'jsonrpc': '2.0', 'id': request['id'], **answer}

    def send(self, count):
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        opened.bind((self.device, 0))
        own = opened.getsockname()[4]
        total = sum(engine.share for engine in self.engines)
        due = [0] * len(self.engines)
        for _ in range(count):
            due = [value + engine.share for value, engine
                   in zip(due, self.engines, strict=True)]
            index = due.index(max(due))
            due[index] -= total
            engine = self.engines[index]
            frame, number = engine.next()
            frame[:12] = self.mac + own
            self.sent += 1
            if not self.lost or number % self.lost:
                opened.send(engine.fixed(frame))


def main(service, conversation, device, mac, lost):
    stand_in = StandIn(json.loads(conversation), device,
                       bytes.fromhex(mac.replace(':', '')), int(lost))
    with socket.create_server(('127.0.0.1', int(service))) as server:
        print('listening', flush=True)
        connection, _ = server.accept()
        with connection:
            peer = trex_relay.Peer(connection, b'REP')
            while True:
                try:
                    request = json.loads(peer.receive())
                except trex_relay.ProtocolError:
                    break
                peer.send(json.dumps(stand_in.answer(request)).encode())
    left = [method for method, _, _ in stand_in.steps]
    print(json.dumps({'left': left, 'lost': stand_in.lost}), flush=True)


if __name__ == '__main__':
    main(*sys.argv[1:])
