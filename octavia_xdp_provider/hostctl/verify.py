# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-host verify: compares the wanted state with the datapath.

The wanted state is what the agent fetched last. A change that the agent is
applying shows as a difference for a moment.
"""

import typing

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.host import address_sets
from octavia_xdp_provider.host import datapath
from octavia_xdp_provider.host import documents
from octavia_xdp_provider.host import fetching
from octavia_xdp_provider.host import plans
from octavia_xdp_provider.host import settings as settings_module
from octavia_xdp_provider.host import types
from octavia_xdp_provider.host.taps import Tap
from octavia_xdp_provider.hostctl import contents
from octavia_xdp_provider.hostctl import place as place_module
from octavia_xdp_provider.hostctl import show
from octavia_xdp_provider.process import output
from octavia_xdp_provider.process import stdout
from octavia_xdp_provider.process.agents import wanted as wanted_module

_TAP_HOOKS = (types.Hook.TAP_IN, types.Hook.TAP_OUT)
HOST = '(host)'

Fault = tuple[str, str]


class Held(typing.NamedTuple):
    """The state of the datapath. ``rules``: by port; ``sets``: networks by
    number; ``networks``: those of LB nodes."""

    ports: dict[str, types.PortState]
    entries: dict[int, types.Entry]
    programs: frozenset[types.Program]
    rules: dict[str, list[types.Rule]]
    sets: dict[int, set[str]]
    networks: frozenset[str]
    settings: types.Settings
    peers: frozenset[str] = frozenset()
    proxies: frozenset[str] = frozenset()


class Planned(typing.NamedTuple):
    """The state that valid documents want. ``sets``: networks by id."""

    ports: dict[str, plans.Plan]
    sets: dict[str, list[str]]
    numbers: address_sets.Numbers


def read(host: datapath.Datapath) -> Held:
    """:raises HostError: the datapath cannot be read."""
    ports = {port.id: port for port in host.ports()}
    return Held(ports, {state.entry.key: state.entry
                        for state in host.entries()},
                frozenset(host.programs()),
                {key: host.rules(key) for key in ports},
                host.address_sets(), frozenset(host.networks()),
                host.settings(), frozenset(host.peers()),
                frozenset(host.proxies()))


def run(place: typing.Any, arguments: typing.Any) -> int:
    """Return 0 if everything matches, 1 if something differs."""
    host = place.open()
    try:
        held = read(host)
    finally:
        host.close()
    faults, planned = _plan(place)
    snapshot = place_module.snapshot()
    settings = settings_module.find(place.conf, snapshot)
    faults += of_underlay(settings, held)
    common = fetching.load_common(place.files.common)
    faults += [(HOST, text) for text in contents.of_networks(
        common, held.networks)]
    faults += [(HOST, text) for text in contents.of_proxies(
        common, held.proxies)]
    faults += [(HOST, text) for text in contents.of_peers(
        common, held.peers)]
    taps, known = place_module.find_taps(
        place.conf.host_agent.ovsdb, snapshot.links,
        planned.ports if planned else ())
    if not known:
        faults.append((HOST, 'Open vSwitch\'s database does not answer '
                       '([host_agent] ovsdb)'))
    if planned is not None:
        faults += of_ports(planned, taps, held)
        faults += [(key or HOST, text) for key, text in contents.of_sets(
            planned.sets, planned.numbers.get, held.sets)]
    return _report(arguments, faults, held)


def _plan(place: typing.Any
          ) -> tuple[list[Fault], Planned | None]:
    wanted = wanted_module.Cache(place.files.wanted).load()
    if wanted is None:
        return [(HOST, 'nothing is known of what is wanted: the agent has '
                 f'not kept it in {place.files.wanted}')], None
    numbers = address_sets.Numbers(place.files.address_sets)
    faults, planned = [], Planned({}, {}, numbers)
    for key, (_generation, document) in sorted(wanted.documents.items()):
        try:
            parsed = documents.parse(key, document)
        except errors.Refused as error:
            faults.append((key, str(error)))
            continue
        if parsed.port is not None:
            planned.ports[key] = plans.plan(parsed.port, numbers.get)
        if parsed.address_set is not None:
            planned.sets[key] = parsed.address_set['networks']
    return faults, planned


def of_underlay(settings: settings_module.Settings, held: Held
                ) -> list[Fault]:
    """Return differences of settings and of the underlay's programs."""
    faults = [(HOST, problem) for problem in settings.problems]
    faults += [(HOST, text) for text in contents.of_settings(
        settings.datapath, held.settings)]
    for ifindex in settings.underlay:
        faults += [(HOST, text) for text in _of_program(
            types.Hook.NIC, ifindex, held)]
    pinned = {program.ifindex for program in held.programs
              if program.hook == types.Hook.NIC}
    return faults + [
        (HOST, f'there is a program at interface {ifindex}, which is not '
         'of the underlay')
        for ifindex in sorted(pinned - set(settings.underlay))]


def _of_program(hook: types.Hook, ifindex: int, held: Held
                ) -> typing.Iterator[str]:
    where = (f'{hook.name.lower()} at interface '
             f'{show.interface(ifindex) or ifindex}')
    for prog in held.programs:
        if (prog.hook, prog.ifindex) == (hook, ifindex) and prog.attached:
            if not prog.current:
                yield f'the program {where} is one of another release'
            return
    yield f'there is no program {where}'


def of_ports(planned: Planned, taps: typing.Mapping[str, Tap], held: Held
             ) -> list[Fault]:
    """Return differences of ports, entries and programs at taps."""
    faults: list[Fault] = []
    set_ids = {number: key for key in planned.sets
               if (number := planned.numbers.get(key)) is not None}
    for key, plan in planned.ports.items():
        faults += [(key, text) for text in _of_port(
            plan, taps.get(key), held, set_ids)]
    faults += [(key, 'it is there, and not wanted')
               for key in sorted(held.ports.keys() - planned.ports.keys())]
    wanted = {state.ifindex for state in held.ports.values()}
    faults += [
        (HOST, f'there is a program at interface {program.ifindex}, which is '
         'no port\'s tap')
        for program in sorted(held.programs)
        if program.hook in _TAP_HOOKS and program.ifindex not in wanted]
    return faults


def _of_port(plan: plans.Plan, tap: Tap | None, held: Held,
             set_ids: dict[int, str]) -> typing.Iterator[str]:
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
    yield from contents.of_rules(plan.rules, held.rules.get(plan.id, ()),
                                 set_ids)
    for hook in _TAP_HOOKS if state.ifindex else ():
        yield from _of_program(hook, state.ifindex, held)
    yield from _of_entries(plan, held)


def _of_entries(plan: plans.Plan, held: Held) -> typing.Iterator[str]:
    for key, entry in sorted(plan.entries.items()):
        present = held.entries.get(key)
        if present is None:
            yield f'key {key} is wanted, and not there'
        elif present != entry:
            names = [name for name, value in entry._asdict().items()
                     if getattr(present, name) != value]
            yield f'key {key} differs in {", ".join(names)}'
    for key, entry in sorted(held.entries.items()):
        if entry.port_id == plan.id and key not in plan.entries:
            yield f'key {key} is there, and not wanted'


def _report(arguments: typing.Any, faults: list[Fault], held: Held) -> int:
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
