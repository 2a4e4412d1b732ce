# SPDX-License-Identifier: Apache-2.0
"""Translate the wanted state of a load balancer to services and checks.

All functions are pure. The node validates documents again, so that a mistake
of the control host does not reach the fabric.
"""

from collections.abc import Callable
from collections.abc import Mapping
import dataclasses
import functools
import ipaddress
from typing import Any
from typing import NamedTuple

from octavia_xdp_provider.agent import nat as agent_nat
from octavia_xdp_provider.agent import service_settings
from octavia_xdp_provider.api import nat as nat_rules
from octavia_xdp_provider.api import rules
from octavia_xdp_provider.api import validation
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.health import checks_file
from octavia_xdp_provider.health import monitors
from octavia_xdp_provider.node import datapath

_MTU_MAX = 65535  # struct oxp_member

# Values of [agent] health_scope.
POOL = 'pool'
LOAD_BALANCER = 'load_balancer'


class Service(NamedTuple):
    """The datapath's part of one listener at one VIP."""

    settings: datapath.Settings
    members: tuple[datapath.Member, ...]

    def families(self, vip: str) -> frozenset[int]:
        """Return the IP versions of the service's packets: outer packets to
        members and, with NAT, packets to clients of the VIP."""
        versions = frozenset(ipaddress.ip_address(
            member.tunnel.address if member.tunnel else member.address
            ).version for member in self.members)
        if self.settings.flags & datapath.ServiceFlag.NAT:
            versions |= {ipaddress.ip_address(vip).version}
        return versions


@dataclasses.dataclass(frozen=True)
class Plan:
    """Services and checks of one load balancer on a node.

    ``vips``: all its VIPs, each of which has a service for each listener.
    ``listeners``: by listener id. ``conditions``: for members with several
    checks. ``pools``: pool id → keys of the checks or conditions of its
    members. ``monitored``: by id, the members with health checks.
    ``moving``: ids of the monitored members that are moving.
    ``patience``: key of a moving member's check → seconds.
    ``named``: by service: (pool id, name → id of its members).
    ``nat_project``: the project that flows by NAT count for, or None.
    """

    vips: tuple[str, ...]
    services: dict[datapath.Key, Service]
    listeners: dict[str, tuple[datapath.Key, ...]]
    checks: list[checks_file.Check]
    conditions: list[checks_file.Condition]
    pools: dict[str, set[str]]
    monitored: dict[str, tuple[datapath.Key, datapath.MemberName]]
    nat_project: str | None = None
    moving: set[str] = dataclasses.field(default_factory=set)
    patience: dict[str, int] = dataclasses.field(default_factory=dict)
    named: dict[datapath.Key, tuple[str, dict[datapath.MemberName, str]]] = (
        dataclasses.field(default_factory=dict))

    @property
    def check_keys(self) -> frozenset[str]:
        """The keys of all checks and conditions of its members."""
        return frozenset().union(
            *self.pools.values(),
            *(condition.checks for condition in self.conditions))


class _Use(NamedTuple):
    """The use of a pool by one service."""

    document: spec.Document
    listener_id: str
    key: datapath.Key
    pool_id: str
    pool: spec.Pool
    settings: datapath.Settings

    def name_of(self, member: spec.Member) -> datapath.MemberName:
        return datapath.MemberName(
            _canonical(member['address']),
            rules.port_on_node(self.document, self.pool, member))

    @property
    def is_nat(self) -> bool:
        return bool(self.settings.flags & datapath.ServiceFlag.NAT)

    def keeps_ports(self, member: spec.Member) -> bool:
        """Return whether a tunnel leads to the member at whose end all ports
        are the member's own."""
        return 'tunnel' in member and not spec.is_keyed(member) and bool(
            self.pool.get('proxies') or flavor.value(
                self.document['flavor'], 'member_port') == 'same')

    def tunnel_of(self, member: spec.Member) -> datapath.Tunnel | None:
        return service_settings.tunnel(self.document, member,
                                       self.listener_id, self.key.address)


# (Service, pool id, member id) → checks of a monitored member.
Asked = dict[tuple[datapath.Key, str, str], list[checks_file.Check]]


class Through(NamedTuple):
    """A probe inside the member's encapsulation: it goes to the address and
    port of the service and carries this mark.

    ``keeps_ports``: whether probes to other ports of that address reach these
    ports of the member.
    """

    mark: int
    service: datapath.Key
    keeps_ports: bool = False


def checks(monitor: spec.HealthMonitor, member: spec.Member,
           through: Through | None = None) -> list[checks_file.Check]:
    """Return the checks of a member; it is up if all of them are.

    With ``through``, a monitor of the port that clients use is probed inside
    the encapsulation only, which covers whatever a probe to the member's own
    address would find. A monitor of another address or port is probed there,
    and the path of traffic is probed in addition.
    """
    own = monitors.check(monitor, member)
    if through is None:
        return [own]
    at_service = dataclasses.replace(
        own, address=through.service.address, port=through.service.port,
        mark=through.mark)
    if _probes_same_port(monitor, member, through.service):
        wanted = [at_service]
    elif through.keeps_ports and _probes_own_address(member):
        wanted = [dataclasses.replace(at_service, port=own.port)]
    else:
        at_service = dataclasses.replace(
            at_service, type=_CONNECT[through.service.protocol], http=None,
            tls=None)
        wanted = [own, at_service]
    if wanted[-1].type == 'udp-connect' and not spec.is_keyed(member):
        # Silence counts as success, even if the tunnel leads nowhere, so ping
        # as well. VMs behind keyed tunnels need not answer echo requests.
        wanted.append(dataclasses.replace(wanted[-1], type='ping'))
    return wanted


def _check_probes(monitor: spec.HealthMonitor, member: spec.Member,
                  through: Through | None) -> None:
    """Refuse probes to the own address of a member with a tunnel: in the
    underlay that address is unused or belongs to another host."""
    if 'tunnel' not in member or not _probes_own_address(member):
        return
    if through is None:
        raise errors.Refused(
            'healthmonitor', f'member {member["address"]} is behind a tunnel, '
            'and this node does not send probes through tunnels',
            'set [agent] probe_through_datapath, and make sure that the VIP '
            'has a route by an uplink')
    if not (through.keeps_ports
            or _probes_same_port(monitor, member, through.service)):
        raise errors.Refused(
            'healthmonitor', f'member {member["address"]} is behind a tunnel, '
            'through which the port to be probed cannot be reached',
            'probe the port that clients use, or give a monitor_address')


# Protocol of a service → the check that shows at least an open port.
_CONNECT = {'TCP': 'tcp', 'UDP': 'udp-connect', 'SCTP': 'sctp'}
_PROTOCOLS = {'UDP-CONNECT': 'UDP', 'SCTP': 'SCTP'}  # others are TCP


def _probes_own_address(member: spec.Member) -> bool:
    return member['monitor_address'] in (None, '', member['address'])


def _probes_same_port(monitor: spec.HealthMonitor, member: spec.Member,
                      service: datapath.Key) -> bool:
    """Return whether the monitor probes the port that clients use."""
    if not _probes_own_address(member):
        return False
    if monitor['type'] == 'PING':
        return True
    port = member['protocol_port']
    # The member's tool rewrites ports of the service's protocol only.
    return member['monitor_port'] in (None, 0, port) and (
        port == service.port
        or _PROTOCOLS.get(monitor['type'], 'TCP') == service.protocol)


@functools.lru_cache(1 << 16)
def _canonical(text: str) -> str:
    """Return the address in canonical form."""
    return str(ipaddress.ip_address(text))


# Arguments of a call for a mark: VIP, member, settings and tunnel.
MarkTarget = tuple[str, datapath.MemberName, datapath.Settings,
                   datapath.Tunnel | None]


@dataclasses.dataclass(frozen=True)
class Context:
    """What plans of this node depend on besides documents.

    ``policy``: with the addresses of this node. ``path_mtu``: function from
    an address to the size in bytes of the greatest outer packet that reaches
    it, 0 for the uplink's MTU. ``scope``: which monitors decide the state of
    a member: that of its POOL, or those of all pools of its LOAD_BALANCER
    with its address. ``mark``: function from a MarkTarget to the mark of
    probes inside the member's encapsulation, or None for no such probes.
    ``share``: function from a document with forwarding nat to its nat.Share.
    ``host``: this node, as named in a document's ``announcing``.
    """

    policy: address_policy.AddressPolicy
    path_mtu: Callable[[str], int] | None = None
    scope: str = POOL
    mark: Callable[..., int | None] | None = None
    keys: checks_file.Keys = checks_file.UNKEYED
    share: Callable[[spec.Document], agent_nat.Share] | None = None
    host: str = ''


def plan(given: Mapping[str, Any], context: Context) -> Plan:
    """Return the Plan of a load balancer for this node.

    :param given: the document as the controller sent it.
    :raises Refused: this node must not or cannot serve the load balancer.
    """
    document = validation.read(given, context.policy)
    vips = tuple(spec.vips(document))
    share = None
    if flavor.is_nat(document['flavor']):
        if context.share is None:
            raise errors.Refused('flavor', 'this node does no NAT',
                                 'set [nat] pools on it')
        share = context.share(document)
    result = Plan(vips, {}, {}, [], [], {}, {},
                  nat_rules.project(document) if share else None)
    uses: list[_Use] = []
    for listener_id, listener, pool in spec.forwarded(document):
        services = tuple(datapath.Key(
            vip, rules.transport(listener['protocol']),
            listener['protocol_port']) for vip in vips)
        result.listeners[listener_id] = services
        uses += [_Use(document, listener_id, key,
                      listener['default_pool_id'] or '', pool,
                      service_settings.of(document, listener, pool,
                                          key.address, share,
                                          context.host))
                 for key in services]
    asked = _collect_checks(uses, context.mark or (lambda *_target: None))
    _note_patience(result, document, asked, context.keys)
    if context.scope == LOAD_BALANCER:
        asked = _share_checks(uses, asked)
    for use in uses:
        _plan_service(result, use, asked, context)
    return result


def _collect_checks(uses: list[_Use], mark: Callable[..., int | None]
                    ) -> Asked:
    """Return (Key, pool id, member id) → checks for monitored members."""
    wanted: Asked = {}
    for use in uses:
        monitor = use.pool['healthmonitor']
        if not (monitor and monitor['admin_state_up']):
            continue
        for member_id, member in use.pool['members'].items():
            if not member['admin_state_up'] or member.get('leaving'):
                continue
            # With NAT probes and packets both follow the kernel's routes.
            number = None if use.is_nat else mark(
                use.key.address, use.name_of(member), use.settings,
                use.tunnel_of(member))
            through = Through(number, use.key, use.keeps_ports(member)) if (
                number) else None
            _check_probes(monitor, member, through)
            wanted[use.key, use.pool_id, member_id] = checks(
                monitor, member, through)
    return wanted


def _note_patience(result: Plan, document: spec.Document, asked: Asked,
                   keys: checks_file.Keys) -> None:
    """Collect all checks of moving members: while a VM cannot be reached,
    none of its addresses can."""
    for (_key, pool_id, member_id), wanted in asked.items():
        member = document['pools'][pool_id]['members'][member_id]
        patience = member.get('tunnel', {}).get('patience')
        if patience:
            result.moving.add(member_id)
            for member_check in wanted:
                key = keys.of(member_check)
                result.patience[key] = max(
                    patience, result.patience.get(key, 0))


def _share_checks(uses: list[_Use], asked: Asked) -> Asked:
    """Give each member the checks of all members with its name."""
    names = {(use.key, use.pool_id, member_id): use.name_of(member)
             for use in uses
             for member_id, member in use.pool['members'].items()}
    by_name: dict[datapath.MemberName, list[checks_file.Check]] = {}
    for member, wanted in asked.items():
        by_name.setdefault(names[member], []).extend(wanted)
    return {member: by_name[names[member]] for member in asked}


def _plan_service(result: Plan, use: _Use, asked: Asked, context: Context
                  ) -> None:
    """Add a service, and the checks and conditions of its members."""
    keys = set()
    members = []
    names = {}
    for member_id, member in use.pool['members'].items():
        name = use.name_of(member)
        names[name] = member_id
        check_id = 0
        wanted = asked.get((use.key, use.pool_id, member_id))
        if wanted:
            key = _add_checks(result, wanted, context.keys)
            keys.add(key)
            # The member's state is the same in all services: use the first.
            result.monitored.setdefault(member_id, (use.key, name))
            check_id = int(key, 16)
        members.append(datapath.Member(
            name.address, member['weight'], check_id,
            member['admin_state_up'], member['backup'],
            _mtu(use, member, context.path_mtu), name.port,
            use.tunnel_of(member)))
    if not use.is_nat:
        result.named[use.key] = use.pool_id, names
    result.services[use.key] = Service(use.settings, tuple(sorted(members)))
    if keys:
        result.pools.setdefault(use.pool_id, set()).update(keys)


def _mtu(use: _Use, member: spec.Member,
         path_mtu: Callable[[str], int] | None) -> int:
    """Return the greatest outer packet in bytes, or 0: the uplink's MTU."""
    tunnel = use.tunnel_of(member)
    path = path_mtu(service_settings.outer_address(
        use.settings, _canonical(member['address']), tunnel)) if (
            path_mtu) else 0
    inner = member['tunnel'].get('mtu') if tunnel else None
    if inner is None or tunnel is None:
        return path
    taken = min(inner + service_settings.overhead(use.settings, tunnel),
                _MTU_MAX)
    return min(path, taken) if path else taken


def _add_checks(result: Plan, wanted: list[checks_file.Check],
                keys: checks_file.Keys) -> str:
    """Add checks; return the key whose state is their conjunction."""
    result.checks.extend(wanted)
    check_keys = frozenset(keys.of(wanted_check) for wanted_check in wanted)
    if len(check_keys) == 1:
        return next(iter(check_keys))
    condition = checks_file.Condition(check_keys)
    result.conditions.append(condition)
    return keys.of(condition)
