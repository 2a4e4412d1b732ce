# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-ctl explain: what the program does with a packet, and why."""

import errno
import ipaddress
import sys

from octavia_xdp_provider.common import stdout
from octavia_xdp_provider.ctl import capture
from octavia_xdp_provider.ctl import decide
from octavia_xdp_provider.ctl import links
from octavia_xdp_provider.ctl import outer
from octavia_xdp_provider.ctl import output
from octavia_xdp_provider.ctl import packet
from octavia_xdp_provider.ctl import tables
from octavia_xdp_provider.node.datapath import DatapathError
from octavia_xdp_provider.node.types import Encapsulation
from octavia_xdp_provider.node.types import Outcome

ACTIONS = ('XDP_ABORTED', 'XDP_DROP', 'XDP_PASS', 'XDP_TX', 'XDP_REDIRECT')
TX, REDIRECT, PASS, DROP = 3, 4, 2, 1
# OXP_FRAME_MAX of octavia_xdp.h; and an Ethernet header.
FRAME_MIN, FRAME_MAX = 14, 3520
_REMARKS = (Outcome.FRAGMENT_GUESSED, Outcome.MEMORY_FULL)
# Tables may change between the look at them and the run.
_TRIES = 5


class Explanation:
    """One packet: what should become of it, and what does."""

    def __init__(self, decision, run, ifindex, number=None):
        self.decision = decision
        self.run = run
        self.number = number
        self.outcome = _outcome_of(run)
        self.outer = None
        self.differences = list(_differences(self, decision, run, ifindex))

    @property
    def action(self):
        return ACTIONS[self.run.action] if (
            self.run.action < len(ACTIONS)) else str(self.run.action)

    def value(self):
        """For JSON."""
        member = self.decision.member
        return {
            'number': self.number,
            'steps': [{'step': topic, 'result': text}
                      for topic, text in self.decision.steps],
            'expected': self.decision.outcome.name.lower(),
            'outcome': self.outcome.name.lower(),
            'action': self.action,
            'member': member.address if member is not None and (
                self.outcome == Outcome.FORWARDED) else None,
            'frame': self.run.frame,
            'agrees': not self.differences,
            'differences': self.differences}

    def text(self):
        rows = list(self.decision.steps)
        if self.outer:
            rows.append(('outer', _outer_text(self.outer)))
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


def _outcome_of(run):
    """The outcome of a run, by action and counters."""
    counted = [one for one in run.outcomes if one not in _REMARKS]
    if len(counted) == 1:
        return counted[0]
    if counted or run.action not in (PASS, TX, REDIRECT):
        return Outcome.DROP_INTERNAL
    return Outcome.PASS if run.action == PASS else Outcome.FORWARDED


def _outer_text(found):
    vlans = ''.join(f' VLAN {tag & 4095}' for tag in found.vlans)
    name = (found.encapsulation.name if found.encapsulation is not None
            else 'unknown')
    more = f', DSCP {found.dscp}' if (
        found.encapsulation == Encapsulation.DSCP) else ''
    return (f'{found.source_mac} -> {found.destination_mac}{vlans}, {name} '
            f'{found.source} -> {found.destination}{more}')


def _action_for(outcome, decision, ifindex):
    if outcome in (Outcome.PASS, Outcome.PASSED_TOO_BIG):
        return PASS
    if outcome in (Outcome.ECHO_REPLY, Outcome.SENT_TOO_BIG):
        return TX
    if outcome == Outcome.FORWARDED:
        if decision.by_routes:
            return None
        return TX if decision.uplink.ifindex == ifindex else REDIRECT
    return DROP


def _is_expected(explanation, decision):
    if explanation.outcome == decision.outcome:
        return True
    # Earlier packets of the same file may have spent it.
    if decision.limited and explanation.number is not None and (
            explanation.outcome in (Outcome.PASS, Outcome.DROP_TOO_BIG)):
        return True
    if decision.by_routes:
        return explanation.outcome in (
            Outcome.DROP_NO_NEXT_HOP, Outcome.DROP_TOO_BIG,
            Outcome.SENT_TOO_BIG, Outcome.PASSED_TOO_BIG)
    return False


def _differences(explanation, decision, run, ifindex):
    """Texts on what the program did otherwise than the tables say."""
    if not _is_expected(explanation, decision):
        yield (f'the outcome is {explanation.outcome.name}, by the tables '
               f'{decision.outcome.name}')
        return
    action = _action_for(explanation.outcome, decision, ifindex)
    if action is not None and action != run.action:
        yield f'it is {explanation.action}, by the tables {ACTIONS[action]}'
    remarks = {one for one in run.outcomes if one in _REMARKS}
    if decision.instead is not None:
        remarks.discard(Outcome.MEMORY_FULL)
    if remarks != decision.remarks:
        names = sorted(one.name for one in remarks ^ decision.remarks)
        yield f'remarks differ: {", ".join(names)}'
    if explanation.outcome == Outcome.FORWARDED:
        yield from _outer_differences(explanation, decision, run)


def _outer_differences(explanation, decision, run):
    settings = decision.settings
    member = decision.member
    if Outcome.MEMORY_FULL in run.outcomes and decision.instead is not None:
        member = decision.member = decision.instead
    found = explanation.outer = outer.decode(run.frame,
                                             settings.encapsulation)
    if found is None or found.encapsulation is None:
        yield (f'what leaves is not {settings.encapsulation.name}: '
               f'{run.frame[:64].hex()}')
        return
    wanted = outer.member_destination(member.address, settings)
    if found.destination != wanted:
        yield f'it goes to {found.destination}, by the tables to {wanted}'
    source = _outer_source(decision, settings, found.version)
    if found.source != source:
        yield f'it comes from {found.source}, by the tables from {source}'
    if settings.encapsulation == Encapsulation.DSCP and (
            found.dscp != settings.dscp):
        yield f'its DSCP is {found.dscp}, by the tables {settings.dscp}'
    length = decision.parsed.frame[decision.parsed.network:]
    if len(run.frame) - found.inner != len(length):
        yield (f'it carries {len(run.frame) - found.inner} bytes, the client '
               f'sent {len(length)}')
    if decision.uplink is not None:
        yield from _link_differences(found, decision.uplink)


def _link_differences(found, uplink):
    hop = (uplink.gateway_mac_v6 if found.version == 6
           else uplink.gateway_mac_v4)
    for name, seen, wanted in (
            ('next hop', found.destination_mac, hop),
            ('sender', found.source_mac, uplink.own_mac),
            ('VLANs', found.vlans, tuple(uplink.vlans))):
        if seen != wanted:
            yield f'its {name} is {seen}, by the tables {wanted}'


def _outer_source(decision, settings, version):
    if settings.encapsulation == Encapsulation.DSCP:
        return decision.parsed.source
    node = decision.node_settings
    text, bits = ((node.source_v6, node.entropy_v6) if version == 6
                  else (node.source_v4, node.entropy_v4))
    mask = (1 << bits) - 1
    address = ipaddress.ip_address(text)
    return str(type(address)(int(address) & ~mask
                             | decision.entropy & mask))


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
                with self._node.rehearsal() as rehearsal:
                    self.tag = rehearsal.tag
                    found = [self._one(known, rehearsal, number, frame)
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

    def _one(self, known, rehearsal, number, frame):
        decision = decide.Decider(known, rehearsal).decide(frame)
        decision.node_settings = known.settings
        if decision.key is not None:
            decision.settings = known.services[decision.key].settings
        return Explanation(decision, rehearsal.run(frame, self._ifindex),
                           self._ifindex, number)


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
            [(one.number, one.decision.steps[0][1], one.outcome.name.lower(),
              one.value()['member'], not one.differences)
             for one in found]))
    for text in others:
        print(f'ANOTHER PROGRAM IS LOADED: {text}', file=sys.stderr)
    different = sum(bool(one.differences) for one in found)
    if different and len(found) > 1:
        print(f'{different} OF {len(found)} PACKETS DIFFER FROM THE TABLES; '
              '--steps says how', file=sys.stderr)
    return 1 if different or others else 0
