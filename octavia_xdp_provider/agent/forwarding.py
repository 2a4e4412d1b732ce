# SPDX-License-Identifier: Apache-2.0
"""From the wanted state of a load balancer to services and checks.

Pure functions. A document is checked here once more: a mistake of the
control host would reach the fabric.
"""

import dataclasses
import functools
import ipaddress
import typing

from octavia_xdp_provider.agent import service_settings
from octavia_xdp_provider.common import checks_file
from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import expected_codes
from octavia_xdp_provider.common import flavor
from octavia_xdp_provider.common import nat as nat_rules
from octavia_xdp_provider.common import rules
from octavia_xdp_provider.common import spec
from octavia_xdp_provider.common import validation
from octavia_xdp_provider.node import datapath

_MTU_MAX = 65535  # struct oxp_member

# Values of [agent] health_scope.
POOL = 'pool'
LOAD_BALANCER = 'load_balancer'


class Service(typing.NamedTuple):
    """What one listener needs of the datapath."""

    settings: datapath.Settings
    members: tuple

    def families(self, vip):
        """IP versions of the packets that it sends: the outer ones to its
        members, with NAT those to clients of the VIP as well."""
        found = frozenset(ipaddress.ip_address(
            member.tunnel.address if member.tunnel else member.address
            ).version for member in self.members)
        if self.settings.flags & datapath.ServiceFlag.NAT:
            found |= {ipaddress.ip_address(vip).version}
        return found


@dataclasses.dataclass(frozen=True)
class Plan:
    """What one load balancer needs on a node.

    ``vips``: all its VIPs, each of which has a service for each listener.
    ``services``: datapath.Key → Service.
    ``listeners``: listener id → tuple of datapath.Key.
    ``checks``: list of checks_file.Check.
    ``conditions``: list of checks_file.Condition, of members that several
    checks decide.
    ``pools``: pool id → keys of the checks or conditions of its members.
    ``monitored``: member id → (datapath.Key, datapath.MemberName), of the
    members whose health is checked.
    ``moving``: ids of the monitored members that are moving.
    ``patience``: key of a check → seconds, of these.
    ``named``: datapath.Key → pool id, and datapath.MemberName → member id.
    ``nat_project``: whose flows its flows are, with forwarding nat; or None.
    """

    vips: tuple
    services: dict
    listeners: dict
    checks: list
    conditions: list
    pools: dict
    monitored: dict
    nat_project: str | None = None
    moving: set = dataclasses.field(default_factory=set)
    patience: dict = dataclasses.field(default_factory=dict)
    named: dict = dataclasses.field(default_factory=dict)

    @property
    def check_keys(self):
        """Keys of all checks that decide about its members."""
        return frozenset().union(
            *self.pools.values(),
            *(condition.checks for condition in self.conditions))


class _Use(typing.NamedTuple):
    """A pool and the service that it is used for."""

    document: dict
    listener_id: str
    key: datapath.Key
    pool_id: str
    pool: dict
    settings: datapath.Settings

    def name_of(self, member):
        return datapath.MemberName(
            _spelled(member['address']),
            rules.port_on_node(self.document, self.key.protocol, member))

    def tunnel_of(self, member):
        """datapath.Tunnel, or None."""
        return service_settings.tunnel(self.document, member,
                                       self.listener_id, self.key.address)


class Through(typing.NamedTuple):
    """How a member is probed inside its encapsulation: at the address and
    port of its service, by probes with this mark."""

    mark: int
    service: datapath.Key


def checks(monitor, member, through=None):
    """All checks of a member that its pool's health monitor asks for.

    The member is up if all of them are. With ``through`` a check of what
    clients use goes there alone: it finds whatever the one at the member's
    own address would. What the monitor wants to be checked elsewhere is
    checked there, and the path of traffic in addition.
    """
    own = check(monitor, member)
    if through is None:
        return [own]
    at_service = dataclasses.replace(
        own, address=through.service.address, port=through.service.port,
        mark=through.mark)
    if _is_of_service(monitor, member, through.service):
        found = [at_service]
    else:
        at_service = dataclasses.replace(
            at_service, type=_CONNECT[through.service.protocol], http=None,
            tls=None)
        found = [own, at_service]
    if at_service.type == 'udp-connect' and not spec.is_keyed(member):
        # Silence is good there: of a tunnel that ends nowhere, too. VMs that
        # know nothing of it need not answer echo requests.
        found.append(dataclasses.replace(at_service, type='ping'))
    return found


def _check_probes(monitor, member, through):
    """Refuse probes to the address of a member with a tunnel: there is nobody
    there, or somebody else.

    :param through: Through or None.
    """
    if 'tunnel' not in member or member['monitor_address'] not in (
            None, '', member['address']):
        return
    if through is None:
        raise errors.Refused(
            'healthmonitor', f'member {member["address"]} is behind a tunnel, '
            'where probes get as traffic does, which this node does not send '
            'them as', 'set [agent] probe_through_datapath, and let the VIP '
            'have a route by an uplink')
    if not _is_of_service(monitor, member, through.service):
        raise errors.Refused(
            'healthmonitor', f'member {member["address"]} is behind a tunnel, '
            'where there is no way to the port that is to be probed',
            'probe the port that clients use, or give a monitor_address')


# What shows at least that somebody listens, by the protocol of a service.
_CONNECT = {'TCP': 'tcp', 'UDP': 'udp-connect', 'SCTP': 'sctp'}
_PROTOCOLS = {'UDP-CONNECT': 'UDP', 'SCTP': 'SCTP'}  # others are TCP


def _is_of_service(monitor, member, service):
    """Whether the monitor asks for what clients of the service use."""
    if member['monitor_address'] not in (None, '', member['address']):
        return False
    if monitor['type'] == 'PING':
        return True
    port = member['protocol_port']
    # The member's own tool rewrites ports of the service's protocol only.
    return member['monitor_port'] in (None, 0, port) and (
        port == service.port
        or _PROTOCOLS.get(monitor['type'], 'TCP') == service.protocol)


def check(monitor, member):
    """The check of a member that its pool's health monitor asks for."""
    kind = monitor['type']
    http = tls = None
    if kind in ('HTTP', 'HTTPS'):
        http = checks_file.HttpOptions(
            method=monitor['http_method'], path=monitor['url_path'],
            version=f'{float(monitor["http_version"]):.1f}',
            host=monitor['domain_name'],
            expected_codes=expected_codes.parse(
                monitor['expected_codes']))
    if kind in ('HTTPS', 'TLS-HELLO'):
        tls = checks_file.TlsOptions.for_host(monitor['domain_name'])
    return checks_file.Check(
        type=kind.lower(),
        address=member['monitor_address'] or member['address'],
        port=member['monitor_port'] or member['protocol_port'],
        delay=monitor['delay'], timeout=monitor['timeout'],
        rise=monitor['max_retries'], fall=monitor['max_retries_down'],
        http=http, tls=tls)


@functools.lru_cache(1 << 16)
def _spelled(text):
    """The address in its one spelling."""
    return str(ipaddress.ip_address(text))


def plan(document, policy, path_mtu=None, scope=POOL, mark=None,
         keys=checks_file.UNKEYED, nat=None, host=''):
    """What a load balancer needs on this node.

    :param document: as the controller sent it.
    :param policy: AddressPolicy with the addresses of this node.
    :param path_mtu: gives the greatest outer packet, in bytes, that reaches
        an address, or 0 where the uplink alone says it.
    :param scope: which monitors decide the state of a member: that of its
        POOL, or those of its LOAD_BALANCER whose pools hold its address.
    :param mark: gives, from VIP, datapath.MemberName, datapath.Settings and
        datapath.Tunnel or None, the mark of probes inside the member's
        encapsulation, or None for no such probes.
    :param keys: checks_file.Keys of this node.
    :param nat: gives, from a document with forwarding nat, its nat.Share.
    :param host: this node, as the document's ``announcing`` names it.
    :raises Refused: the node must not do it, or does not know how.
    """
    document = validation.read(document, policy)
    vips = tuple(spec.vips(document))
    share = None
    if flavor.is_nat(document['flavor']):
        if nat is None:
            raise errors.Refused('flavor', 'this node does no NAT',
                                 'set [nat] pools on it')
        share = nat(document)
        # Probes go as packets to members do: by the kernel's routes.
        mark = None
    result = Plan(vips, {}, {}, [], [], {}, {},
                  share and nat_rules.project(document))
    uses = []
    for listener_id, listener, pool in spec.forwarded(document):
        services = tuple(datapath.Key(
            vip, rules.transport(listener['protocol']),
            listener['protocol_port']) for vip in vips)
        result.listeners[listener_id] = services
        uses += [_Use(document, listener_id, key,
                      listener['default_pool_id'], pool,
                      service_settings.of(document, listener, pool,
                                          key.address, share, host))
                 for key in services]
    asked = _asked(uses, mark or (lambda *_target: None))
    _note_patience(result, document, asked, keys)
    if scope == LOAD_BALANCER:
        asked = _joined(uses, asked)
    for use in uses:
        _plan_service(result, use, asked, path_mtu or (lambda _address: 0),
                      keys)
    return result


def _asked(uses, mark):
    """(Key, pool id, member id) → checks, of every monitored member."""
    found = {}
    for use in uses:
        monitor = use.pool['healthmonitor']
        if not (monitor and monitor['admin_state_up']):
            continue
        for member_id, member in use.pool['members'].items():
            if not member['admin_state_up']:
                continue
            number = mark(use.key.address, use.name_of(member),
                          use.settings, use.tunnel_of(member))
            through = number and Through(number, use.key)
            _check_probes(monitor, member, through)
            found[use.key, use.pool_id, member_id] = checks(
                monitor, member, through)
    return found


def _note_patience(result, document, asked, keys):
    """Note which checks are of members that are moving: all of them, as
    where a VM cannot be reached none of its addresses can."""
    for (_key, pool_id, member_id), wanted in asked.items():
        member = document['pools'][pool_id]['members'][member_id]
        patience = member.get('tunnel', {}).get('patience')
        if patience:
            result.moving.add(member_id)
            for one in wanted:
                name = keys.of(one)
                result.patience[name] = max(
                    patience, result.patience.get(name, 0))


def _joined(uses, asked):
    """The same, each with the checks of all members of its name."""
    names = {(use.key, use.pool_id, member_id): use.name_of(member)
             for use in uses
             for member_id, member in use.pool['members'].items()}
    by_name = {}
    for member, wanted in asked.items():
        by_name.setdefault(names[member], []).extend(wanted)
    return {member: by_name[names[member]] for member in asked}


def _plan_service(result, use, asked, path_mtu, check_keys):
    """Add a service and what decides the states of its members."""
    keys = set()
    members = []
    names = {}
    for member_id, member in use.pool['members'].items():
        named = use.name_of(member)
        names[named] = member_id
        check_id = 0
        wanted = asked.get((use.key, use.pool_id, member_id))
        if wanted:
            name = _watch(result, wanted, check_keys)
            keys.add(name)
            # Of several services the first one says it: all have it alike.
            result.monitored.setdefault(member_id, (use.key, named))
            check_id = int(name, 16)
        members.append(datapath.Member(
            named.address, member['weight'], check_id,
            member['admin_state_up'], member['backup'],
            _mtu(use, member, path_mtu), named.port, use.tunnel_of(member)))
    if result.nat_project is None:
        result.named[use.key] = use.pool_id, names
    result.services[use.key] = Service(use.settings, tuple(sorted(members)))
    if keys:
        result.pools.setdefault(use.pool_id, set()).update(keys)


def _mtu(use, member, path_mtu):
    """Greatest outer packet to a member, bytes; 0: as the uplink says."""
    tunnel = use.tunnel_of(member)
    path = path_mtu(service_settings.outer_address(
        use.settings, _spelled(member['address']), tunnel))
    inner = member['tunnel'].get('mtu') if tunnel else None
    if inner is None:
        return path
    taken = min(inner + service_settings.overhead(use.settings, tunnel),
                _MTU_MAX)
    return min(path, taken) if path else taken


def _watch(result, wanted, keys):
    """The key whose state is the conjunction of these checks."""
    result.checks.extend(wanted)
    names = frozenset(keys.of(one) for one in wanted)
    if len(names) == 1:
        return next(iter(names))
    condition = checks_file.Condition(names)
    result.conditions.append(condition)
    return keys.of(condition)
