# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-host verify: what is wanted, compared with what is there.

Wanted is what the agent fetched last; a change that it is just making shows
as a difference for a moment.
"""

import typing

from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import output
from octavia_xdp_provider.common import stdout
from octavia_xdp_provider.common import wanted as wanted_module
from octavia_xdp_provider.host import address_sets
from octavia_xdp_provider.host import documents
from octavia_xdp_provider.host import pins as pins_module
from octavia_xdp_provider.host import plans
from octavia_xdp_provider.host import settings as settings_module
from octavia_xdp_provider.host import types
from octavia_xdp_provider.host.taps import Tap
from octavia_xdp_provider.hostctl import place as place_module
from octavia_xdp_provider.hostctl import show

_TAP_HOOKS = (types.Hook.TAP_IN, types.Hook.TAP_OUT)
HOST = '(host)'

Fault = tuple[str, str]


class Held(typing.NamedTuple):
    """What is there."""

    ports: dict[str, types.PortState]
    entries: dict[int, types.Entry]
    pins: frozenset[pins_module.Pin]


def run(place: typing.Any, arguments: typing.Any) -> int:
    """0: all is right; 1: something differs."""
    host = place.open()
    try:
        held = Held({one.id: one for one in host.ports()},
                    {one.entry.key: one.entry for one in host.entries()},
                    pins_module.pins(place.conf.host_agent.pin_directory))
    finally:
        host.close()
    faults, planned = _plan(place)
    snapshot = place_module.snapshot()
    faults += of_underlay(
        settings_module.find(place.conf, snapshot), held)
    taps, known = place_module.find_taps(
        place.conf.host_agent.ovsdb, snapshot.links, planned or {})
    if not known:
        faults.append((HOST, 'Open vSwitch\'s database does not answer '
                       '([host_agent] ovsdb)'))
    if planned is not None:
        faults += of_ports(planned, taps, held)
    return _say(arguments, faults, held)


def _plan(place: typing.Any
          ) -> tuple[list[Fault], dict[str, plans.Plan] | None]:
    wanted = wanted_module.Cache(place.files.wanted).load()
    if wanted is None:
        return [(HOST, 'nothing is known of what is wanted: the agent has '
                 f'not kept it in {place.files.wanted}')], None
    numbers = address_sets.Numbers(place.files.address_sets)
    faults, planned = [], {}
    for key, (_generation, document) in sorted(wanted.documents.items()):
        try:
            port = documents.parse(key, document).port
        except errors.Refused as error:
            faults.append((key, str(error)))
            continue
        if port is not None:
            planned[key] = plans.plan(port, numbers.get)
    return faults, planned


def of_underlay(settings: settings_module.Settings, held: Held
                ) -> list[Fault]:
    """Differences at the underlay's interfaces."""
    faults = [(HOST, problem) for problem in settings.problems]
    pinned = {pin.ifindex for pin in held.pins
              if pin.hook == types.Hook.NIC}
    return faults + [
        (HOST, f'there is no program at {show.interface(ifindex)}')
        for ifindex in settings.underlay if ifindex not in pinned] + [
        (HOST, f'there is a program at interface {ifindex}, which is not '
         'of the underlay')
        for ifindex in sorted(pinned - set(settings.underlay))]


def of_ports(planned: dict[str, plans.Plan],
             taps: typing.Mapping[str, Tap], held: Held) -> list[Fault]:
    """Differences of ports, entries and programs at taps."""
    faults: list[Fault] = []
    for key, plan in planned.items():
        faults += [(key, text) for text in _of_port(
            plan, taps.get(key), held)]
    faults += [(key, 'it is there, and not wanted')
               for key in sorted(held.ports.keys() - planned.keys())]
    wanted = {state.ifindex for state in held.ports.values()}
    faults += [
        (HOST, f'there is a program at interface {pin.ifindex}, which is '
         'no port\'s tap')
        for pin in sorted(held.pins)
        if pin.hook in _TAP_HOOKS and pin.ifindex not in wanted]
    return faults


def _of_port(plan: plans.Plan, tap: Tap | None, held: Held
             ) -> typing.Iterator[str]:
    state = held.ports.get(plan.id)
    if state is None:
        yield 'it is wanted, and not there'
        return
    if tap is not None and tap.problem:
        yield tap.problem
    ifindex = (tap.ifindex or 0) if tap else 0
    if state.ifindex != ifindex:
        yield (f'its tap is interface {ifindex or "none"}, and the datapath '
               f'has {state.ifindex or "none"}')
    if state.open != plan.open:
        yield f'open is {state.open}, and {plan.open} is wanted'
    if state.rules != len(plan.rules):
        yield f'it has {state.rules} rules, and {len(plan.rules)} are wanted'
    for hook in _TAP_HOOKS:
        if state.ifindex and pins_module.Pin(
                hook, state.ifindex) not in held.pins:
            yield (f'there is no program {hook.name.lower()} at interface '
                   f'{state.ifindex}')
    yield from _of_entries(plan, held)


def _of_entries(plan: plans.Plan, held: Held) -> typing.Iterator[str]:
    for key, entry in sorted(plan.entries.items()):
        found = held.entries.get(key)
        if found is None:
            yield f'key {key} is wanted, and not there'
        elif found != entry:
            names = [name for name, one in entry._asdict().items()
                     if getattr(found, name) != one]
            yield f'key {key} differs in {", ".join(names)}'
    for key, entry in sorted(held.entries.items()):
        if entry.port_id == plan.id and key not in plan.entries:
            yield f'key {key} is there, and not wanted'


def _say(arguments: typing.Any, faults: list[Fault], held: Held) -> int:
    if arguments.format == 'json':
        stdout.say(output.dump({
            'ports': len(held.ports), 'entries': len(held.entries),
            'faults': [{'port': None if port == HOST else port,
                        'fault': text} for port, text in faults]}))
    elif faults:
        stdout.say(output.table(('PORT', 'FAULT'), faults))
    else:
        stdout.say(f'{len(held.ports)} ports, {len(held.entries)} entries: '
                   'all is as wanted')
    return 1 if faults else 0
