# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-ctl explain: what the program does with a packet, and why."""

import errno
import functools
import ipaddress
import sys

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
from octavia_xdp_provider.process import stdout

# An Ethernet header, and the largest buffer that the kernel's test run gives
# the program in one piece.
FRAME_MIN, FRAME_MAX = 14, 3520
# Attempts, because tables may change between reading them and the run.
_TRIES = 5


class Explanation:
    """What should happen to one packet, and what does.

    ``result`` is the model's, ``steps`` are its decisions, ``wrong`` are
    differences between the model and the tables.
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
        """The member that the packet is forwarded to, or None: its address,
        and its port if packets to it are rewritten."""
        if self.result.service is None or (
                self.outcome != compare.Outcome.FORWARDED):
            return None
        member = self.result.service.members[self.result.member]
        return str(MemberName(describe.address(member.address), member.port))

    def value(self):
        """Return the explanation for JSON."""
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
        remarks = [outcome.name for outcome in self.run.outcomes
                   if outcome != self.outcome]
        rows.append(('outcome', ' and '.join([self.outcome.name, *remarks])
                     + f', {self.action}'))
        width = max(len(topic) for topic, _text in rows) + 2
        lines = [f'{topic:{width}}{text}' for topic, text in rows]
        if self.differences:
            lines += ['', 'THE PROGRAM DOES NOT DO WHAT THE TABLES SAY:']
            lines += [f'  {text}' for text in self.differences]
        return '\n'.join(lines)


class Model:
    """The packet model of a node with its tables and a simulation."""

    def __init__(self, node_tables, simulation):
        self._tables = node_tables
        self._simulation = simulation
        self._forwarder = forward.Forwarder(node_tables.node)
        self._vips = {}

    def question(self, frame, ifindex):
        """Return a function that decides on the packet, see _decide()."""
        packet_ = parse.parse(frame)
        if type(packet_) is not parse.Ignored and (
                packet_.destination not in self._vips):
            self._vips[packet_.destination] = self._tables.vip(
                packet_.destination)
            self._forwarder.set_services(
                [service for services in self._vips.values()
                 for service in services])
        knowledge = simulated.Knowledge(self._simulation, self._tables)
        return functools.partial(self._decide, knowledge, frame, ifindex)

    def _decide(self, knowledge, frame, ifindex, full=False):
        """Return (forward.Result, steps, differences as texts).

        :param full: whether there is no room to remember another flow.
        """
        node, model = self._tables.node, self._forwarder
        wrong = []
        model.watch = watch = wording.Steps(self._tables)
        model.memory = simulated.Memory(node, full)
        model.slots = simulated.Slots(knowledge, model.memory, wrong)
        model.fragments = simulated.Fragments(knowledge, self._tables)
        model.sources = simulated.Sources(knowledge)
        model.answers = rate.Answers(node)  # with its whole budget
        return model.forward(frame, ifindex, 0), watch.steps, wrong


class Explainer:
    """Explains packets one after the other, as if the node received them."""

    def __init__(self, node, ifindex):
        self._node = node
        self._ifindex = ifindex

    def explain(self, frames):
        """Return explanations of (number, frame) pairs. Starts over if the
        tables change meanwhile."""
        for tries_left in reversed(range(_TRIES)):
            kernel = links.Links()
            node_tables = tables.Tables(self._node, kernel)
            try:
                with self._node.simulation() as simulation:
                    self.tag = simulation.tag
                    model = Model(node_tables, simulation)
                    explanations = [
                        self._explain(model, simulation, number, frame)
                        for number, frame in frames]
            except DatapathError as error:
                # A service was removed meanwhile.
                if error.errno != errno.ENOENT or not tries_left:
                    raise
                continue
            after = tables.Tables(self._node, kernel).version()
            if after == node_tables.version():
                break
        return explanations

    def _explain(self, model, simulation, number, frame):
        decide = model.question(frame, self._ifindex)
        decided = decide()
        run = simulation.run(frame, self._ifindex)
        if compare.Outcome.FLOW_TABLE_FULL in run.outcomes:
            # Only the program sees how full the flow's set is.
            decided = decide(full=True)
        return Explanation(*decided, run, number)


def ingress(node, arguments):
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


def _endpoint(text, protocol, role):
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


def wanted_packet(arguments):
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


def _frames(arguments):
    """Return pairs (number or None, frame). Writes notes to stderr."""
    if not arguments.file:
        return [(None, packet.frame(wanted_packet(arguments)))]
    if arguments.what:
        raise packet.PacketError('either --file or a packet in words')
    frames, outbound, cut, long = [], 0, 0, 0
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
            frames.append((captured.number, captured.frame))
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
    """Return texts on attached programs other than the explained one."""
    kernel = links.Links()
    programs = node.programs()
    if not programs:
        print('the program is attached to no interface: no packet meets it',
              file=sys.stderr)
    return [f'the program of {kernel.name(program.ifindex)} has the tag '
            f'{program.tag}, this library\'s has {tag}: explained is the '
            'library\'s' for program in programs if program.tag != tag]


def run(node, arguments):
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
            ('NUMBER', 'PACKET', 'OUTCOME', 'MEMBER', 'AGREES'),
            [(explanation.number, explanation.steps[0][1],
              explanation.outcome.name.lower(), explanation.member,
              not explanation.differences) for explanation in explanations]))
    for text in others:
        print(f'ANOTHER PROGRAM IS LOADED: {text}', file=sys.stderr)
    different = sum(bool(explanation.differences)
                    for explanation in explanations)
    if different and len(explanations) > 1:
        print(f'{different} OF {len(explanations)} PACKETS DIFFER FROM THE '
              'TABLES; --steps says how', file=sys.stderr)
    return 1 if different or others else 0
