# SPDX-License-Identifier: Apache-2.0
"""Tenants' calls of Octavia's API, with the objects that the driver receives
and their effect on Octavia's database."""

from octavia_lib.api.drivers import data_models

from octavia_xdp_provider.contracts import spec

VIPS = tuple(f'203.0.113.{number}' for number in range(1, 7))
MEMBERS = tuple(f'198.18.10.{number}' for number in range(1, 9))


class Tenant:
    """Makes calls. Each returns whether the driver accepted it.

    :param octavia: octavia.Octavia.
    :param driver: the provider driver.
    """

    def __init__(self, octavia, driver):
        self._octavia = octavia
        self._driver = driver
        self._number = 0

    def _id(self, kind):
        self._number += 1
        return f'{kind}{self._number}'

    def _member(self, address, port=80, **fields):
        return data_models.Member(
            member_id=self._id('m'), address=address, protocol_port=port,
            **fields)

    def _monitor(self, pool_id, **fields):
        return data_models.HealthMonitor(
            healthmonitor_id=self._id('hm'), pool_id=pool_id, type='TCP',
            delay=5, timeout=3, max_retries=2, max_retries_down=3, **fields)

    def _pool(self, key, addresses=(), monitored=False):
        pool_id = self._id('pool')
        return data_models.Pool(
            pool_id=pool_id, loadbalancer_id=key, protocol='TCP',
            name=pool_id, lb_algorithm='SOURCE_IP_PORT',
            members=[self._member(address) for address in addresses],
            healthmonitor=self._monitor(pool_id) if monitored else None)

    # Load balancers

    def create(self, vip, addresses, monitored):
        """Create a load balancer with listener, pool and members in one call;
        without addresses, the load balancer only."""
        key = self._id('lb')
        balancer = data_models.LoadBalancer(
            loadbalancer_id=key, name=key, project_id='p', vip_address=vip,
            vip_port_id=f'port-{key}', vip_subnet_id='s', vip_network_id='n',
            listeners=[], pools=[])
        if addresses:
            pool = self._pool(key, addresses, monitored)
            balancer.pools = [pool]
            balancer.listeners = [data_models.Listener(
                listener_id=self._id('l'), name='', loadbalancer_id=key,
                protocol='TCP', protocol_port=80,
                default_pool_id=pool.pool_id)]
        self._octavia.create(self._driver.loadbalancer_create, balancer)
        return key

    def update(self, key, **fields):
        new = data_models.LoadBalancer(loadbalancer_id=key, **fields)
        return self._octavia.change(
            key, lambda: self._driver.loadbalancer_update(None, new),
            lambda document: document.update(fields), ())

    def failover(self, key):
        return self._octavia.change(
            key, lambda: self._driver.loadbalancer_failover(key),
            lambda document: None, ())

    def delete(self, key):
        document = self._octavia.documents[key]
        return self._octavia.change(
            key, lambda: self._driver.loadbalancer_delete(
                data_models.LoadBalancer(loadbalancer_id=key), cascade=True),
            lambda document: None, (), spec.objects(document))

    # Listeners

    def create_listener(self, key, port, pool_id):
        new = data_models.Listener(
            listener_id=self._id('l'), name='', loadbalancer_id=key,
            protocol='TCP', protocol_port=port, default_pool_id=pool_id)
        fields = spec.with_defaults('listener', {
            'name': '', 'protocol': 'TCP', 'protocol_port': port,
            'default_pool_id': pool_id})
        return self._octavia.change(
            key, lambda: self._driver.listener_create(new),
            lambda document: document['listeners'].update(
                {new.listener_id: fields}), _path(pool_id=pool_id))

    def update_listener(self, key, listener_id, **fields):
        old = data_models.Listener(listener_id=listener_id,
                                   loadbalancer_id=key)
        new = data_models.Listener(listener_id=listener_id, **fields)
        return self._octavia.change(
            key, lambda: self._driver.listener_update(old, new),
            lambda document: document['listeners'][listener_id].update(
                fields), {('listener', listener_id)})

    def delete_listener(self, key, listener_id):
        return self._octavia.change(
            key, lambda: self._driver.listener_delete(data_models.Listener(
                listener_id=listener_id, loadbalancer_id=key)),
            lambda document: None, (), {('listener', listener_id)})

    # Pools

    def create_pool(self, key, listener_id):
        new = self._pool(key)
        new.listener_id = listener_id

        def edit(document):
            document['pools'][new.pool_id] = spec.complete_pool({
                'name': new.name, 'protocol': 'TCP',
                'lb_algorithm': 'SOURCE_IP_PORT'})
            if listener_id:
                document['listeners'][listener_id][
                    'default_pool_id'] = new.pool_id
        return self._octavia.change(
            key, lambda: self._driver.pool_create(new), edit,
            {('listener', listener_id)} if listener_id else ())

    def update_pool(self, key, pool_id, **fields):
        old = data_models.Pool(pool_id=pool_id, loadbalancer_id=key)
        new = data_models.Pool(pool_id=pool_id, **fields)
        return self._octavia.change(
            key, lambda: self._driver.pool_update(old, new),
            lambda document: document['pools'][pool_id].update(fields),
            self._above(key, pool_id))

    def delete_pool(self, key, pool_id):
        return self._octavia.change(
            key, lambda: self._driver.pool_delete(data_models.Pool(
                pool_id=pool_id, loadbalancer_id=key)),
            lambda document: None, self._above(key, pool_id),
            {('pool', pool_id)})

    # Members and health monitors

    def create_member(self, key, pool_id, address):
        new = self._member(address, pool_id=pool_id)
        return self._octavia.change(
            key, lambda: self._driver.member_create(new),
            lambda document: document['pools'][pool_id]['members'].update(
                {new.member_id: _member_fields(address)}),
            self._above(key, pool_id))

    def update_member(self, key, pool_id, member_id, **fields):
        old = data_models.Member(member_id=member_id, pool_id=pool_id)
        new = data_models.Member(member_id=member_id, **fields)
        return self._octavia.change(
            key, lambda: self._driver.member_update(old, new),
            lambda document: document['pools'][pool_id]['members'][
                member_id].update(fields),
            self._above(key, pool_id) | {('member', member_id)})

    def delete_member(self, key, pool_id, member_id):
        return self._octavia.change(
            key, lambda: self._driver.member_delete(data_models.Member(
                member_id=member_id, pool_id=pool_id)),
            lambda document: None, self._above(key, pool_id),
            {('member', member_id)})

    def replace_members(self, key, pool_id, keep, addresses, weight):
        """Replace all members but those in ``keep``, and set the weight."""
        old = self._octavia.documents[key]['pools'][pool_id]['members']
        keep = [name for name in keep if name in old]
        new = [self._member(address, pool_id=pool_id, weight=weight)
               for address in addresses]
        batch = [data_models.Member(
            member_id=name, address=old[name]['address'], pool_id=pool_id,
            protocol_port=80, weight=weight) for name in keep] + new

        def edit(document):
            members = document['pools'][pool_id]['members']
            for name in keep:
                members[name]['weight'] = weight
            members.update({member.member_id: _member_fields(
                member.address, weight=weight) for member in new})
        return self._octavia.change(
            key, lambda: self._driver.member_batch_update(pool_id, batch),
            edit, self._above(key, pool_id) | {
                ('member', name) for name in keep},
            {('member', name) for name in old.keys() - set(keep)})

    def create_monitor(self, key, pool_id):
        new = self._monitor(pool_id)
        return self._octavia.change(
            key, lambda: self._driver.health_monitor_create(new),
            lambda document: document['pools'][pool_id].update(
                healthmonitor=spec.with_defaults('healthmonitor', {
                    'id': new.healthmonitor_id, 'type': 'TCP', 'delay': 5,
                    'timeout': 3, 'max_retries': 2, 'max_retries_down': 3})),
            self._above(key, pool_id))

    def update_monitor(self, key, pool_id, monitor_id, **fields):
        old = data_models.HealthMonitor(healthmonitor_id=monitor_id,
                                        pool_id=pool_id)
        new = data_models.HealthMonitor(healthmonitor_id=monitor_id, **fields)
        return self._octavia.change(
            key, lambda: self._driver.health_monitor_update(old, new),
            lambda document: document['pools'][pool_id][
                'healthmonitor'].update(fields),
            self._above(key, pool_id) | {('healthmonitor', monitor_id)})

    def delete_monitor(self, key, pool_id, monitor_id):
        return self._octavia.change(
            key, lambda: self._driver.health_monitor_delete(
                data_models.HealthMonitor(healthmonitor_id=monitor_id,
                                          pool_id=pool_id)),
            lambda document: None, self._above(key, pool_id),
            {('healthmonitor', monitor_id)})

    def _above(self, key, pool_id):
        """Return what becomes PENDING_UPDATE with an object of a pool."""
        return {('pool', pool_id)} | {
            ('listener', listener_id) for listener_id, listener
            in self._octavia.documents[key]['listeners'].items()
            if listener['default_pool_id'] == pool_id}


def _path(pool_id):
    return {('pool', pool_id)} if pool_id else set()


def _member_fields(address, **fields):
    return spec.with_defaults('member', dict(
        {'address': address, 'protocol_port': 80}, **fields))
