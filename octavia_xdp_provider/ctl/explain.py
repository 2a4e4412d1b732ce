# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-ctl explain: what the program does with a packet, and why."""

import argparse
import errno
import ipaddress
import sys
from typing import Any

from octavia_xdp_provider.ctl import capture
from octavia_xdp_provider.ctl import frame as frames
from octavia_xdp_provider.ctl import links
from octavia_xdp_provider.ctl import outcome as outcomes
from octavia_xdp_provider.ctl import outer
from octavia_xdp_provider.ctl import output
from octavia_xdp_provider.ctl import packet
from octavia_xdp_provider.ctl import tables
from octavia_xdp_provider.ctl import wording
from octavia_xdp_provider.node.datapath import DatapathError
from octavia_xdp_provider.node.inspection import Inspection
from octavia_xdp_provider.node.inspection import Run
from octavia_xdp_provider.node.types import Encapsulation
from octavia_xdp_provider.node.types import Outcome
from octavia_xdp_provider.node.types import ServiceFlag
from octavia_xdp_provider.process import stdout

# An Ethernet header, and the largest buffer that the kernel's test run gives
# the program in one piece.
FRAME_MIN, FRAME_MAX = 14, 3520
# Attempts, because tables may change between reading them and the run.
_TRIES = 5
# Frames with their numbers in a file, if they are of one.
Frames = list[tuple[int | None, bytes]]


class Explanation:
    """What the program decided on one packet, and made of it.

    ``steps`` are pairs (topic, text); ``run`` is what the simulation returned.
    """

    def __init__(self, frame: bytes, run: Run, node_tables: tables.Tables,
                 number: int | None = None) -> None:
        self.run = run
        self.number = number
        self.outcome = outcomes.outcome_of(run)
        self.steps, self._service, self._member = wording.steps_of(
            frames.decode(frame), run, self.outcome, node_tables)

    @property
    def action(self) -> str:
        return outcomes.action_name(self.run.action)

    @property
    def member(self) -> str | None:
        """The member that the packet is forwarded to, or None: its address,
        and its port if packets to it are rewritten."""
        if self._member is None or self.outcome != Outcome.FORWARDED:
            return None
        return str(self._member.name)

    def _outer(self) -> outer.Outer | None:
        """Decode the packet that leaves with an outer header, or None."""
        if self._service is None or self._member is None or (
                self.member is None):
            return None
        settings = self._service.settings
        if ServiceFlag.NAT in settings.flags:
            return None
        used = self._member.tunnel or settings
        return outer.decode(self.run.frame, Encapsulation(used.encapsulation))

    def value(self) -> dict[str, Any]:
        """Return the explanation for JSON."""
        return {
            'number': self.number,
            'steps': [{'step': topic, 'result': text}
                      for topic, text in self.steps],
            'outcome': self.outcome.name.lower(),
            'action': self.action,
            'member': self.member,
            'frame': self.run.frame}

    def text(self) -> str:
        rows = list(self.steps)
        sent = self._outer()
        if sent:
            rows.append(('outer', sent.text()))
        remarks = [outcome.name for outcome in self.run.outcomes
                   if outcome != self.outcome]
        rows.append(('outcome', ' and '.join([self.outcome.name, *remarks])
                     + f', {self.action}'))
        width = max(len(topic) for topic, _text in rows) + 2
        return '\n'.join(f'{topic:{width}}{text}' for topic, text in rows)


class Explainer:
    """Explains packets one after the other, as if the node received them."""

    def __init__(self, node: Inspection, ifindex: int) -> None:
        self._node = node
        self._ifindex = ifindex

    def explain(self, numbered: Frames) -> list[Explanation]:
        """Return explanations of (number, frame) pairs. Starts over if the
        tables change meanwhile."""
        for tries_left in reversed(range(_TRIES)):
            kernel = links.Links()
            node_tables = tables.Tables(self._node, kernel)
            try:
                with self._node.simulation() as simulation:
                    self.tag = simulation.tag
                    explanations = [Explanation(
                        frame, simulation.run(frame, self._ifindex),
                        node_tables, number) for number, frame in numbered]
            except DatapathError as error:
                # A service was removed meanwhile.
                if error.errno != errno.ENOENT or not tries_left:
                    raise
                continue
            after = tables.Tables(self._node, kernel).version()
            if after == node_tables.version():
                break
        return explanations


def ingress(node: Inspection, arguments: argparse.Namespace) -> int:
    """Return the index of the interface that the packet arrives on."""
    kernel = links.Links()
    if arguments.interface:
        index = kernel.index(arguments.interface)
        if index is None:
            raise packet.PacketError(
                f'--interface: there is no {arguments.interface} here')
        return index
    programs = node.programs()
    if programs:
        return programs[0].ifindex
    uplinks, _choices = node.uplinks()
    return uplinks[0].ifindex if uplinks else 1


def _endpoint(text: str, protocol: str, role: str) -> tuple[str, int]:
    """Parse ADDRESS:PORT or [ADDRESS]:PORT, or ADDRESS for ICMP."""
    try:
        if protocol == 'icmp':
            return str(ipaddress.ip_address(text.strip('[]'))), 0
        host, colon, port = text.rpartition(':')
        if not colon or (':' in host) != host.startswith('['):
            raise ValueError
        number = int(port)
        if not 0 <= number < 65536:
            raise ValueError
        return str(ipaddress.ip_address(host.strip('[]'))), number
    except ValueError:
        wanted = ('an address' if protocol == 'icmp'
                  else 'ADDRESS:PORT or [ADDRESS]:PORT')
        raise packet.PacketError(f'{role}: {text!r} is not {wanted}'
                                 ) from None


def wanted_packet(arguments: argparse.Namespace) -> packet.Wanted:
    """Return the packet that the arguments describe.

    :raises PacketError: the arguments are invalid.
    """
    if not arguments.what or len(arguments.what) != 3:
        raise packet.PacketError(
            'wanted is PROTOCOL SOURCE DESTINATION, or --file')
    protocol, source, destination = arguments.what
    if protocol not in packet.NAMES:
        raise packet.PacketError(
            f'protocol {protocol!r} is none of {", ".join(packet.NAMES)}')
    if arguments.syn and protocol not in ('tcp', 'sctp'):
        raise packet.PacketError(f'--syn: there is none in {protocol}')
    address, port = _endpoint(source, protocol, 'SOURCE')
    vip, vip_port = _endpoint(destination, protocol, 'DESTINATION')
    return packet.Wanted(
        protocol, address, vip, port, vip_port, arguments.syn,
        arguments.length, arguments.dscp, tuple(arguments.vlan),
        arguments.fragment, arguments.may_fragment, arguments.payload)


def _frames(arguments: argparse.Namespace) -> Frames:
    """Return pairs (number or None, frame). Writes notes to stderr."""
    if not arguments.file:
        return [(None, packet.frame(wanted_packet(arguments)))]
    if arguments.what:
        raise packet.PacketError('either --file or a packet in words')
    wanted: Frames = []
    outbound = cut = long = 0
    with open(arguments.file, 'rb') as file:
        for captured in capture.read(file):
            if arguments.number and captured.number != arguments.number:
                continue
            if captured.out and not arguments.number:
                outbound += 1
                continue
            if not FRAME_MIN <= len(captured.frame) <= FRAME_MAX:
                long += 1
                continue
            cut += bool(captured.missing)
            wanted.append((captured.number, captured.frame))
    if outbound:
        print(f'{outbound} packets that went out are left out',
              file=sys.stderr)
    if long:
        print(f'{long} packets that are no frames of {FRAME_MIN} to '
              f'{FRAME_MAX} bytes, which is what the program gets, are left '
              'out', file=sys.stderr)
    if cut:
        print(f'{cut} packets were not captured whole: the rest is taken '
              'for zeroes', file=sys.stderr)
    if not wanted:
        raise packet.PacketError(f'{arguments.file} has no such packet')
    return wanted


def _other_programs(node: Inspection, tag: str) -> list[str]:
    """Return texts on attached programs other than the explained one."""
    kernel = links.Links()
    programs = node.programs()
    if not programs:
        print('the program is attached to no interface: no packet meets it',
              file=sys.stderr)
    return [f'the program of {kernel.name(program.ifindex)} has the tag '
            f'{program.tag}, this library\'s has {tag}: explained is the '
            'library\'s' for program in programs if program.tag != tag]


def run(node: Inspection, arguments: argparse.Namespace) -> int:
    explainer = Explainer(node, ingress(node, arguments))
    explanations = explainer.explain(_frames(arguments))
    others = _other_programs(node, explainer.tag)
    if arguments.json:
        stdout.say(output.dump({
            'packets': [explanation.value() for explanation in explanations],
            'other_programs': others}))
    elif len(explanations) == 1 or arguments.steps:
        stdout.say('\n\n'.join(
            (f'packet {explanation.number}\n' if explanation.number else '')
            + explanation.text() for explanation in explanations))
    else:
        stdout.say(output.table(
            ('NUMBER', 'PACKET', 'OUTCOME', 'MEMBER'),
            [(explanation.number, explanation.steps[0][1],
              explanation.outcome.name.lower(), explanation.member)
             for explanation in explanations]))
    for text in others:
        print(f'ANOTHER PROGRAM IS LOADED: {text}', file=sys.stderr)
    return 1 if others else 0
