# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-ctl explain: what the program does with a packet, and why."""

import errno
import functools
import ipaddress
import sys

from octavia_xdp_provider.common import stdout
from octavia_xdp_provider.ctl import capture
from octavia_xdp_provider.ctl import compare
from octavia_xdp_provider.ctl import describe
from octavia_xdp_provider.ctl import links
from octavia_xdp_provider.ctl import output
from octavia_xdp_provider.ctl import packet
from octavia_xdp_provider.ctl import simulated
from octavia_xdp_provider.ctl import tables
from octavia_xdp_provider.ctl import wording
from octavia_xdp_provider.node.datapath import DatapathError
from octavia_xdp_provider.node.types import MemberName
from octavia_xdp_provider.packet_model import forward
from octavia_xdp_provider.packet_model import parse
from octavia_xdp_provider.packet_model import rate

# What the kernel's test run gives the program in one buffer; and an
# Ethernet header.
FRAME_MIN, FRAME_MAX = 14, 3520
# Tables may change between the look at them and the run.
_TRIES = 5


class Explanation:
    """One packet: what should become of it, and what does.

    ``result`` is the model's, ``steps`` are its decisions, ``wrong`` is what
    the model and the tables disagree about.
    """

    def __init__(self, result, steps, wrong, run, number=None):
        self.result = result
        self.steps = steps
        self.run = run
        self.number = number
        self.outcome = compare.outcome_of(run)
        self.differences = wrong + list(compare.differences(
            result, run, spent=number is not None))

    @property
    def action(self):
        return compare.action_name(self.run.action)

    @property
    def member(self):
        """Who the packet is for, if it is forwarded: the address, with the
        port if packets to it get one."""
        if self.result.service is None or (
                self.outcome != compare.Outcome.FORWARDED):
            return None
        found = self.result.service.members[self.result.member]
        return str(MemberName(describe.address(found.address), found.port))

    def value(self):
        """For JSON."""
        return {
            'number': self.number,
            'steps': [{'step': topic, 'result': text}
                      for topic, text in self.steps],
            'expected': self.result.outcome.name.lower(),
            'outcome': self.outcome.name.lower(),
            'action': self.action,
            'member': self.member,
            'frame': self.run.frame,
            'agrees': not self.differences,
            'differences': self.differences}

    def text(self):
        rows = list(self.steps)
        outer = compare.left(self.run, self.result)
        if outer:
            rows.append(('outer', outer.text()))
        remarks = [one.name for one in self.run.outcomes
                   if one != self.outcome]
        rows.append(('outcome', ' and '.join([self.outcome.name, *remarks])
                     + f', {self.action}'))
        width = max(len(topic) for topic, _text in rows) + 2
        lines = [f'{topic:{width}}{text}' for topic, text in rows]
        if self.differences:
            lines += ['', 'THE PROGRAM DOES NOT DO WHAT THE TABLES SAY:']
            lines += [f'  {text}' for text in self.differences]
        return '\n'.join(lines)


class Model:
    """The packet model of a node with these tables and a simulation."""

    def __init__(self, known, simulation):
        self._known = known
        self._simulation = simulation
        self._forwarder = forward.Forwarder(known.node)
        self._vips = {}

    def question(self, frame, ifindex):
        """A function that decides on the packet: see _decide()."""
        packet_ = parse.parse(frame)
        if type(packet_) is not parse.Ignored and (
                packet_.destination not in self._vips):
            self._vips[packet_.destination] = self._known.vip(
                packet_.destination)
            self._forwarder.set_services(
                [one for services in self._vips.values()
                 for one in services])
        knowledge = simulated.Knowledge(self._simulation, self._known)
        return functools.partial(self._decide, knowledge, frame, ifindex)

    def _decide(self, knowledge, frame, ifindex, full=False):
        """(forward.Result, steps, texts on what is wrong).

        :param full: a flow that is not remembered cannot be.
        """
        node, model = self._known.node, self._forwarder
        wrong = []
        model.watch = watch = wording.Steps(self._known)
        model.memory = simulated.Memory(node, full)
        model.slots = simulated.Slots(knowledge, model.memory, wrong)
        model.fragments = simulated.Fragments(knowledge, self._known)
        model.sources = simulated.Sources(knowledge)
        model.answers = rate.Answers(node)  # none was sent before
        return model.forward(frame, ifindex, 0), watch.steps, wrong


class Explainer:
    """Explains packets one after the other, as if the node got them."""

    def __init__(self, node, ifindex):
        self._node = node
        self._ifindex = ifindex

    def explain(self, frames):
        """Explanations of (number, frame) pairs; once more from the start
        if the tables changed meanwhile."""
        for left in reversed(range(_TRIES)):
            seen = links.Links()
            known = tables.Tables(self._node, seen)
            try:
                with self._node.simulation() as simulation:
                    self.tag = simulation.tag
                    model = Model(known, simulation)
                    found = [self._one(model, simulation, number, frame)
                             for number, frame in frames]
            except DatapathError as error:
                # A service that has gone since.
                if error.errno != errno.ENOENT or not left:
                    raise
                continue
            after = tables.Tables(self._node, seen).version()
            if after == known.version():
                break
        return found

    def _one(self, model, simulation, number, frame):
        decide = model.question(frame, self._ifindex)
        decided = decide()
        run = simulation.run(frame, self._ifindex)
        if compare.Outcome.MEMORY_FULL in run.outcomes:
            # how full the flow's set is, only the program knows
            decided = decide(full=True)
        return Explanation(*decided, run, number)


def ingress(node, arguments):
    """Index of the interface that the packet comes in on."""
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


def _endpoint(text, protocol, what):
    """(address, port) of ADDRESS:PORT or [ADDRESS]:PORT; of ICMP without a
    port."""
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
        raise packet.PacketError(f'{what}: {text!r} is not {wanted}'
                                 ) from None


def wanted_packet(arguments):
    """The packet that the arguments describe.

    :raises PacketError: they do not, and what is wrong.
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


def _frames(arguments):
    """((number or None, frame), …), notes on stderr."""
    if not arguments.file:
        return [(None, packet.frame(wanted_packet(arguments)))]
    if arguments.what:
        raise packet.PacketError('either --file or a packet in words')
    frames, outbound, cut, long = [], 0, 0, 0
    with open(arguments.file, 'rb') as file:
        for one in capture.read(file):
            if arguments.number and one.number != arguments.number:
                continue
            if one.out and not arguments.number:
                outbound += 1
                continue
            if not FRAME_MIN <= len(one.frame) <= FRAME_MAX:
                long += 1
                continue
            cut += bool(one.missing)
            frames.append((one.number, one.frame))
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
    if not frames:
        raise packet.PacketError(f'{arguments.file} has no such packet')
    return frames


def _other_programs(node, tag):
    """Texts on attached programs that are not the one explained."""
    kernel = links.Links()
    programs = node.programs()
    if not programs:
        print('the program is attached to no interface: no packet meets it',
              file=sys.stderr)
    return [f'the program of {kernel.name(one.ifindex)} has the tag '
            f'{one.tag}, this library\'s has {tag}: explained is the '
            'library\'s' for one in programs if one.tag != tag]


def run(node, arguments):
    explainer = Explainer(node, ingress(node, arguments))
    found = explainer.explain(_frames(arguments))
    others = _other_programs(node, explainer.tag)
    if arguments.json:
        stdout.say(output.dump({
            'packets': [one.value() for one in found],
            'other_programs': others}))
    elif len(found) == 1 or arguments.steps:
        stdout.say('\n\n'.join(
            (f'packet {one.number}\n' if one.number else '') + one.text()
            for one in found))
    else:
        stdout.say(output.table(
            ('NUMBER', 'PACKET', 'OUTCOME', 'MEMBER', 'AGREES'),
            [(one.number, one.steps[0][1], one.outcome.name.lower(),
              one.member, not one.differences)
             for one in found]))
    for text in others:
        print(f'ANOTHER PROGRAM IS LOADED: {text}', file=sys.stderr)
    different = sum(bool(one.differences) for one in found)
    if different and len(found) > 1:
        print(f'{different} OF {len(found)} PACKETS DIFFER FROM THE TABLES; '
              '--steps says how', file=sys.stderr)
    return 1 if different or others else 0
