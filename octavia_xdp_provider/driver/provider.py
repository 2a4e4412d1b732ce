# SPDX-License-Identifier: Apache-2.0
"""The Octavia provider driver: checks, translates and sends each change.

Each method checks the options (driver/support.py), translates the object
into fields of the wanted state (api/translate.py) and sends a change to
the controller. The controller reports the statuses later, through
octavia-driver-agent.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any
from typing import cast
from typing import NoReturn

from octavia_lib.api.drivers import data_models
from octavia_lib.api.drivers import exceptions
from octavia_lib.api.drivers import provider_base

from octavia_xdp_provider.api import translate
from octavia_xdp_provider.api import validation
from octavia_xdp_provider.contracts import changes
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import zone
from octavia_xdp_provider.driver import controller_client
from octavia_xdp_provider.driver import octavia_rows
from octavia_xdp_provider.driver import secrets
from octavia_xdp_provider.driver import subnets
from octavia_xdp_provider.driver import support
from octavia_xdp_provider.driver import transactions
from octavia_xdp_provider.driver import vip_port

# Translation by object kind and action. A create without an entry sends the
# same fields as an update.
_TRANSLATE = {
    ('loadbalancer', 'update'): translate.load_balancer,
    ('listener', 'update'): translate.listener,
    ('pool', 'create'): translate.pool_tree,
    ('pool', 'update'): translate.pool,
    ('member', 'update'): translate.member,
    ('healthmonitor', 'update'): translate.health_monitor,
    ('l7policy', 'create'): translate.l7_policy_tree,
    ('l7policy', 'update'): translate.l7_policy,
    ('l7rule', 'update'): translate.l7_rule,
}


# Protocols of listeners that can have L7 policies.
_HTTP = ('HTTP', 'TERMINATED_HTTPS')


# An object that may have certificates: its kind, Octavia's object, and fields.
_Made = tuple[str, object, spec.Fields]


def _certified(loadbalancer: data_models.LoadBalancer, tree: spec.Fields
               ) -> Iterator[_Made]:
    """Yield all listeners and pools of a new load balancer."""
    given = translate.attributes(loadbalancer)
    pools = list(given.get('pools') or ())
    for listener in given.get('listeners') or ():
        fields = translate.attributes(listener)
        yield 'listener', listener, tree['listeners'][fields['listener_id']]
        if fields.get('default_pool'):
            pools.append(fields['default_pool'])
    for key, pool in {translate.attributes(pool)['pool_id']: pool
                      for pool in pools}.items():
        yield 'pool', pool, tree['pools'][key]


def _unsupported(refused: errors.Refused) -> NoReturn:
    """:raises UnsupportedOptionError: always."""
    raise exceptions.UnsupportedOptionError(
        user_fault_string=str(refused),
        operator_fault_string=refused.for_operator) from refused


class XdpProviderDriver(provider_base.ProviderDriver):
    """Load balancing on shared nodes: in XDP, and by proxies."""

    def __init__(self) -> None:
        super().__init__()
        # Octavia begins the transaction of its call after this.
        transactions.watch()
        # Ids of load balancers whose VIP port Octavia creates. At most one:
        # Octavia instantiates a driver for each request.
        self._created_ports: set[str] = set()

    def _check(self, kind: changes.Kind, *provider_objects: object,
               protocol: str | None = None) -> None:
        """:param protocol: of a listener, if the object lacks it."""
        policy = controller_client.ControllerClient.get().policy
        try:
            for provider_object in provider_objects:
                support.check(kind, provider_object, policy, protocol)
                subnets.ALL.check(support.members_of(kind, provider_object),
                                  policy.check_subnets)
        except errors.Refused as refused:
            _unsupported(refused)

    def _check_vips(self, loadbalancer: data_models.LoadBalancer) -> None:
        policy = controller_client.ControllerClient.get().policy
        if not policy.check_vip_subnets:
            return
        try:
            subnets.ALL.check_vips(translate.load_balancer(loadbalancer),
                                   policy.addresses.names_vip_subnets)
        except errors.Refused as refused:
            _unsupported(refused)

    def _send(self, kind: changes.Kind, action: str, object_id: str | None,
              **more: object) -> None:
        client = controller_client.ControllerClient.get()
        change = cast(changes.Change, dict(
            more, object=kind, action=action, object_id=object_id))
        try:
            validation.check_change(change, client.policy.addresses)
        except errors.Refused as refused:
            _unsupported(refused)
        client.change(change)

    def _set(self, kind: changes.Kind, action: str, provider_object: object,
             object_id: str | None, old: Any = None, **more: Any) -> None:
        """Check an object and send the fields that are set.

        :param old: the object before an update.
        """
        before = translate.attributes(old) if old else {}
        self._check(kind, provider_object, protocol=before.get('protocol'))
        make = _TRANSLATE.get((kind, action)) or _TRANSLATE[kind, 'update']
        fields = make(provider_object)
        sealed = self._seal(more.get('load_balancer_id', ''), [
            (kind, provider_object, fields)], before.get('project_id'))
        self._send(kind, action, object_id, fields=fields, **more, **sealed)

    def _seal(self, load_balancer_id: str, made: Iterable[_Made],
              project_id: str | None = None) -> dict[str, dict[str, str]]:
        """Name the certificates of objects in their fields.

        :param project_id: of the object, if an update lacks it.
        :returns: what the change has of them, see changes.Change.
        """
        key = controller_client.ControllerClient.get().policy.public_key
        bundles: dict[str, str] = {}
        try:
            for kind, provider_object, fields in made:
                sealed = secrets.bundles(kind, provider_object,
                                         load_balancer_id, key, project_id)
                fields.update(sealed.fields)
                bundles.update(sealed.bundles)
        except errors.Refused as refused:
            _unsupported(refused)
        return {'bundles': bundles} if bundles else {}

    # Load balancer

    def create_vip_port(self, loadbalancer_id: str, project_id: str,
                        vip_dictionary: spec.Fields,
                        additional_vip_dicts: list[spec.Fields] | None = None
                        ) -> NoReturn:
        """Leave the Neutron port to Octavia, which creates and deletes it.

        Options that are known by now are checked here, before there is a
        port. An address that Neutron is yet to allocate is not known.
        """
        client = controller_client.ControllerClient.get()
        given = dict(vip_dictionary,
                     additional_vips=additional_vip_dicts or [])
        self._check('loadbalancer', given)
        for problem in validation.vip_problems(
                translate.load_balancer(given), client.policy.addresses):
            _unsupported(errors.Refused(problem[0], *problem[1]))
        self._check_vips(given)
        client.check_answers()
        if not vip_dictionary.get('vip_port_id'):
            self._free_unless_committed(loadbalancer_id)
        raise exceptions.NotImplementedError()

    def _free_unless_committed(self, key: str) -> None:
        """Delete the VIP port that Octavia creates next if Octavia rolls its
        transaction back: Octavia then forgets the port. Often its own check
        of a listener or a pool is the cause."""
        self._created_ports.add(key)
        transaction = transactions.current()
        if transaction is None:
            return  # loadbalancer_create() deletes it if it refuses.

        def free_port(committed: bool) -> None:
            # A commit that failed without an answer may have taken effect,
            # and the port may be in use.
            if key in self._created_ports and not (
                    committed or transaction.commit_attempted):
                vip_port.free_later(key)
        transaction.on_end(free_port)

    def loadbalancer_create(self, loadbalancer: data_models.LoadBalancer
                            ) -> None:
        key = loadbalancer.loadbalancer_id
        try:
            self._check('loadbalancer', loadbalancer)
            self._check_vips(loadbalancer)
            more = self._add_rows(loadbalancer)
            fields = translate.load_balancer_tree(loadbalancer)
            fields['flavor'] = flavor.with_defaults(
                fields.get('flavor') or {},
                controller_client.ControllerClient.get().policy.defaults)
            more.update(self._seal(key, _certified(loadbalancer, fields)))
            self._send('loadbalancer', 'create', key, load_balancer_id=key,
                       fields=fields, **more)
        except Exception:
            # Octavia rolls back, and forgets the port that it created.
            if key in self._created_ports:
                self._created_ports.discard(key)
                vip_port.free(loadbalancer)
            raise

    def _add_rows(self, loadbalancer: data_models.LoadBalancer
                  ) -> dict[str, Any]:
        """Add L7 policies and SNI references of a fully populated load
        balancer.

        Octavia does not pass them to the driver: it reads the listeners
        before it creates these. They are rows of its transaction.

        :returns: more of the change: whether it may lack them, as the
            transaction is not known.
        """
        transaction = transactions.current()
        listeners = translate.attributes(loadbalancer).get('listeners') or []
        if transaction is None:
            return {'incomplete': True} if any(
                translate.attributes(listener)['protocol'] in _HTTP
                for listener in listeners) else {}
        policies = octavia_rows.l7_policies(transaction)
        references = octavia_rows.sni_references(transaction)
        for listener in listeners:
            listener_id = translate.attributes(listener)['listener_id']
            if listener_id in references:
                listener.sni_container_refs = references[listener_id]
            if listener_id in policies:
                listener.l7policies = policies[listener_id]
                self._check('listener', listener)
        return {}

    def loadbalancer_delete(self, loadbalancer: data_models.LoadBalancer,
                            cascade: bool = False) -> None:
        # Without cascade, Octavia itself refuses if there are children.
        self._send('loadbalancer', 'delete', loadbalancer.loadbalancer_id,
                   load_balancer_id=loadbalancer.loadbalancer_id)

    def loadbalancer_update(self, old_loadbalancer: data_models.LoadBalancer,
                            new_loadbalancer: data_models.LoadBalancer
                            ) -> None:
        key = new_loadbalancer.loadbalancer_id
        self._set('loadbalancer', 'update', new_loadbalancer, key,
                  load_balancer_id=key)

    def loadbalancer_failover(self, loadbalancer_id: str) -> None:
        # The controller places it on other nodes, which announce the VIP
        # before the current ones withdraw it.
        self._send('loadbalancer', 'failover', loadbalancer_id,
                   load_balancer_id=loadbalancer_id)

    def loadbalancer_failover_with_flavor(self, loadbalancer_id: str,
                                          flavor_id: str) -> NoReturn:
        _unsupported(errors.Refused(
            'flavor_id', 'the flavor of a load balancer is fixed when it is '
            'created', 'fail over without a flavor, or create a load '
            'balancer with the other flavor'))

    # Listener

    def listener_create(self, listener: data_models.Listener) -> None:
        self._check('listener', listener)
        pools = {}
        default_pool = translate.attributes(listener).get('default_pool')
        if default_pool:
            pool_id = translate.attributes(default_pool)['pool_id']
            pools[pool_id] = translate.pool_tree(default_pool)
        fields = translate.listener_tree(listener)
        key = listener.loadbalancer_id
        sealed = self._seal(key, [('listener', listener, fields), *(
            ('pool', default_pool, tree) for tree in pools.values())])
        self._send('listener', 'create', listener.listener_id,
                   load_balancer_id=key, fields=fields, pools=pools, **sealed)

    def listener_delete(self, listener: data_models.Listener) -> None:
        self._send('listener', 'delete', listener.listener_id,
                   load_balancer_id=listener.loadbalancer_id)

    def listener_update(self, old_listener: data_models.Listener,
                        new_listener: data_models.Listener) -> None:
        self._set('listener', 'update', new_listener,
                  new_listener.listener_id, old_listener,
                  load_balancer_id=old_listener.loadbalancer_id)

    # Pool

    def pool_create(self, pool: data_models.Pool) -> None:
        self._set('pool', 'create', pool, pool.pool_id,
                  load_balancer_id=pool.loadbalancer_id,
                  listener_id=pool.listener_id or None)

    def pool_delete(self, pool: data_models.Pool) -> None:
        self._send('pool', 'delete', pool.pool_id,
                   load_balancer_id=pool.loadbalancer_id)

    def pool_update(self, old_pool: data_models.Pool,
                    new_pool: data_models.Pool) -> None:
        self._set('pool', 'update', new_pool, new_pool.pool_id, old_pool,
                  load_balancer_id=old_pool.loadbalancer_id)

    # Member

    def member_create(self, member: data_models.Member) -> None:
        self._set('member', 'create', member, member.member_id,
                  pool_id=member.pool_id)

    def member_delete(self, member: data_models.Member) -> None:
        self._send('member', 'delete', member.member_id,
                   pool_id=member.pool_id)

    def member_update(self, old_member: data_models.Member,
                      new_member: data_models.Member) -> None:
        self._set('member', 'update', new_member, new_member.member_id,
                  pool_id=old_member.pool_id)

    def member_batch_update(self, pool_id: str,
                            members: list[data_models.Member]) -> None:
        # An invalid member refuses the whole batch. The controller deletes
        # the pool's members that are not in the batch.
        self._check('member', *members)
        self._send('member', 'replace', None, pool_id=pool_id,
                   members={member.member_id: translate.member(member)
                            for member in members})

    # Health monitor

    def health_monitor_create(self, healthmonitor: data_models.HealthMonitor
                              ) -> None:
        self._set('healthmonitor', 'create', healthmonitor,
                  healthmonitor.healthmonitor_id,
                  pool_id=healthmonitor.pool_id)

    def health_monitor_delete(self, healthmonitor: data_models.HealthMonitor
                              ) -> None:
        self._send('healthmonitor', 'delete', healthmonitor.healthmonitor_id,
                   pool_id=healthmonitor.pool_id)

    def health_monitor_update(self,
                              old_healthmonitor: data_models.HealthMonitor,
                              new_healthmonitor: data_models.HealthMonitor
                              ) -> None:
        self._set('healthmonitor', 'update', new_healthmonitor,
                  new_healthmonitor.healthmonitor_id,
                  pool_id=old_healthmonitor.pool_id)

    # L7 policies and rules

    def l7policy_create(self, l7policy: data_models.L7Policy) -> None:
        self._set('l7policy', 'create', l7policy, l7policy.l7policy_id,
                  listener_id=l7policy.listener_id)

    def l7policy_delete(self, l7policy: data_models.L7Policy) -> None:
        self._send('l7policy', 'delete', l7policy.l7policy_id,
                   listener_id=l7policy.listener_id)

    def l7policy_update(self, old_l7policy: data_models.L7Policy,
                        new_l7policy: data_models.L7Policy) -> None:
        self._set('l7policy', 'update', new_l7policy,
                  new_l7policy.l7policy_id,
                  listener_id=old_l7policy.listener_id)

    def l7rule_create(self, l7rule: data_models.L7Rule) -> None:
        self._set('l7rule', 'create', l7rule, l7rule.l7rule_id,
                  l7policy_id=l7rule.l7policy_id)

    def l7rule_delete(self, l7rule: data_models.L7Rule) -> None:
        self._send('l7rule', 'delete', l7rule.l7rule_id,
                   l7policy_id=l7rule.l7policy_id)

    def l7rule_update(self, old_l7rule: data_models.L7Rule,
                      new_l7rule: data_models.L7Rule) -> None:
        self._set('l7rule', 'update', new_l7rule, new_l7rule.l7rule_id,
                  l7policy_id=old_l7rule.l7policy_id)

    # Flavors and availability zones

    def get_supported_flavor_metadata(self) -> dict[str, str]:
        defaults = controller_client.ControllerClient.get().policy.defaults
        return {key: flavor.description(key, defaults)
                for key in flavor.KEYS}

    def validate_flavor(self, flavor_metadata: spec.Fields) -> None:
        defaults = controller_client.ControllerClient.get().policy.defaults
        problem = flavor.problem(flavor_metadata) or flavor.problem(
            flavor.with_defaults(flavor_metadata, defaults))
        if problem:
            _unsupported(errors.Refused('flavor', *problem))

    def get_supported_availability_zone_metadata(self) -> dict[str, str]:
        return {key: zone.description(key) for key in zone.KEYS}

    def validate_availability_zone(self,
                                   availability_zone_metadata: spec.Fields
                                   ) -> None:
        problem = zone.problem(availability_zone_metadata)
        if problem:
            _unsupported(errors.Refused('availability_zone', *problem))
