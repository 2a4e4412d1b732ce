# SPDX-License-Identifier: Apache-2.0
"""State machines for hypothesis: API calls and faults in any order."""

import contextlib
import pathlib
import tempfile

from hypothesis import stateful
from hypothesis import strategies

from octavia_xdp_provider.config import options
from octavia_xdp_provider.controller.store import schema
from octavia_xdp_provider.tests.unit.controller import base as store_base
from octavia_xdp_provider.tests.unit.properties import agreement
from octavia_xdp_provider.tests.unit.properties import tenant
from octavia_xdp_provider.tests.unit.properties import world

SEEDS = strategies.integers(0, 2 ** 16)
ANY = strategies.integers(0, 11)
BOOLEANS = strategies.booleans()
ADDRESSES = strategies.lists(strategies.sampled_from(tenant.MEMBERS),
                             max_size=3, unique=True)
STEPS = strategies.one_of(strategies.none(), strategies.integers(0, 40))


def choose(choices, number):
    """Return a choice that depends on a number; None without choices."""
    ordered = sorted(choices)
    return ordered[number % len(ordered)] if ordered else None


def manager(conf, path):
    store_base._make_tables(path)
    return schema.context_manager(conf)


class Machine(stateful.RuleBasedStateMachine):
    """A deployment whose messages may be lost, repeated or late."""

    def __init__(self):
        super().__init__()
        # hypothesis tears down no machine whose constructor fails.
        with contextlib.ExitStack() as stack:
            self._make(stack)
            self._stack = stack.pop_all()

    def _make(self, stack):
        self._directory = stack.enter_context(tempfile.TemporaryDirectory(
            prefix='octavia-xdp-properties-'))
        self.world = world.World(self._directory, self._load, manager)
        stack.callback(self.world.close)
        self.tenant, self.octavia = self.world.tenant, self.world.octavia
        self.backup = None
        # Controllers receive the nodes' first reports.
        for _ in range(2):
            self.world.round()
        for vip, monitored in zip(tenant.VIPS[-2:], (True, False),
                                  strict=True):
            self._end(self.tenant.create(vip, tenant.MEMBERS[:2], monitored),
                      True)
        self.world.round()

    def _load(self, text):
        path = pathlib.Path(self._directory, 'test.conf')
        path.write_text(text)
        return options.load(config_files=[str(path)])

    def teardown(self):
        with self._stack:
            if self.world.settle() is None:
                raise AssertionError(
                    'it does not settle: ' + str(
                        agreement.Agreement(self.world).problems))
            problems = agreement.Agreement(self.world).problems
            assert not problems, '\n'.join(problems)

    # Calls of the API

    def _begin(self, seed, faults):
        self.world.seed(seed)
        self.world.set_faults(faults)

    def _end(self, key, commits):
        """End the API's transaction, unless ``commits`` is None."""
        if key in self.octavia.transactions and commits is not None:
            self.octavia.end(key, commits)

    def _changeable(self, number):
        """Return a load balancer, or None. Wait a few rounds until one can be
        changed, as clients do."""
        for _ in range(3):
            changeable = [key for key in self.octavia.trees
                          if self.octavia.can_change(key)]
            if changeable or not self.octavia.trees:
                break
            self.world.round()
        return choose(changeable, number) if self.octavia.trees else None

    @stateful.rule(seed=SEEDS, faults=BOOLEANS, vip=ANY, addresses=ADDRESSES,
                   monitored=BOOLEANS, commits=strategies.sampled_from(
                       (True, True, True, None, False)))
    def create(self, seed, faults, vip, addresses, monitored, commits):
        if len(self.octavia.trees) > 4:
            return
        self._begin(seed, faults)
        address = choose(tenant.VIPS, vip)
        if address in self.octavia.vips:
            return
        self._end(self.tenant.create(address, addresses, monitored), commits)

    @stateful.rule(seed=SEEDS, faults=BOOLEANS, number=ANY, which=ANY,
                   flag=BOOLEANS, action=strategies.sampled_from(
                       ('update', 'failover', 'delete', 'create_listener',
                        'update_listener', 'move_listener',
                        'delete_listener', 'create_pool', 'update_pool',
                        'delete_pool')),
                   commits=strategies.sampled_from(
                       (True, True, True, None, False)))
    def change(self, seed, faults, number, which, flag, action, commits):
        key = self._changeable(number)
        if key is None:
            return
        self._begin(seed, faults)
        document = self.octavia.alive(key)
        listener_id = choose(document['listeners'], which)
        pool_id = choose(document['pools'], which)
        if action in ('update', 'failover', 'delete'):
            getattr(self.tenant, action)(
                key, **({'admin_state_up': flag} if action == 'update'
                        else {}))
        elif action == 'create_listener':
            port = 80 + which % 4
            if port in {listener['protocol_port'] for listener
                        in document['listeners'].values()}:
                return
            self.tenant.create_listener(key, port, pool_id if flag else None)
        elif action == 'create_pool':
            unused = listener_id and not document['listeners'][listener_id][
                'default_pool_id']
            self.tenant.create_pool(key, listener_id if unused else None)
        elif 'listener' in action:
            self._change_listener(action, key, listener_id, pool_id, flag)
        elif pool_id:
            getattr(self.tenant, action)(key, pool_id, **(
                {'admin_state_up': flag} if action == 'update_pool' else {}))
        self._end(key, commits)

    def _change_listener(self, action, key, listener_id, pool_id, flag):
        if listener_id is None:
            return
        if action == 'update_listener':
            self.tenant.update_listener(key, listener_id, admin_state_up=flag)
        elif action == 'move_listener':
            self.tenant.update_listener(
                key, listener_id, default_pool_id=pool_id if flag else None)
        else:
            self.tenant.delete_listener(key, listener_id)

    @stateful.rule(seed=SEEDS, faults=BOOLEANS, number=ANY, which=ANY,
                   flag=BOOLEANS, addresses=ADDRESSES,
                   weight=strategies.sampled_from((0, 1, 5)),
                   action=strategies.sampled_from(
                       ('create', 'update', 'delete', 'replace', 'monitor')),
                   commits=strategies.sampled_from(
                       (True, True, True, None, False)))
    def change_members(self, seed, faults, number, which, flag, addresses,
                       weight, action, commits):
        key = self._changeable(number)
        document = key and self.octavia.alive(key)
        pool_id = choose(document['pools'], which) if key else None
        if pool_id is None:
            return
        self._begin(seed, faults)
        pool = document['pools'][pool_id]
        member_id = choose(pool['members'], which)
        if action == 'monitor':
            self._change_monitor(key, pool_id, pool['healthmonitor'], which)
        elif action == 'create':
            # Including VIPs, which are refused.
            self.tenant.create_member(key, pool_id, choose(
                (*tenant.MEMBERS, *tenant.VIPS[:2]), which))
        elif action == 'replace':
            self.tenant.replace_members(key, pool_id, sorted(
                pool['members'])[:which % 3], addresses, weight)
        elif member_id and action == 'delete':
            self.tenant.delete_member(key, pool_id, member_id)
        elif member_id:
            self.tenant.update_member(key, pool_id, member_id, **(
                {'weight': weight} if flag else {'admin_state_up': bool(
                    weight)}))
        self._end(key, commits)

    def _change_monitor(self, key, pool_id, monitor, which):
        if monitor is None:
            self.tenant.create_monitor(key, pool_id)
        elif which % 3:
            self.tenant.update_monitor(key, pool_id, monitor['id'],
                                       admin_state_up=which % 3 == 1)
        else:
            self.tenant.delete_monitor(key, pool_id, monitor['id'])

    @stateful.rule(number=ANY, commits=BOOLEANS)
    def end_transaction(self, number, commits):
        key = choose(self.octavia.transactions, number)
        if key is not None:
            self.octavia.end(key, commits)

    # Work of the processes

    @stateful.rule(seed=SEEDS, faults=BOOLEANS, number=ANY, dies=STEPS)
    def work(self, seed, faults, number, dies):
        """A controller works, and may die at any of its steps."""
        self._begin(seed, faults)
        self._run_controller('work', number, dies)

    @stateful.rule(number=ANY, dies=STEPS)
    def resync(self, number, dies):
        self._run_controller('resync', number, dies)

    def _run_controller(self, method, number, dies):
        controller = some_of(self.world.controllers, number)
        if controller.alive:
            controller.fuse = dies
            self.world.act(getattr(controller, method))
            controller.fuse = None

    @stateful.rule(seed=SEEDS, faults=BOOLEANS, host=strategies.sampled_from(
        world.NODES))
    def node_turn(self, seed, faults, host):
        self._begin(seed, faults)
        self.world.nodes[host].turn()

    @stateful.rule(seed=SEEDS, faults=BOOLEANS, seconds=strategies
                   .sampled_from((0.5, 5, 15, 40, 90)))
    def time_passes(self, seed, faults, seconds):
        self._begin(seed, faults)
        self.world.background()
        self.world.pass_time(seconds)

    @stateful.rule(seed=SEEDS)
    def everybody_works(self, seed):
        self._begin(seed, False)
        self.world.round()

    # Faults

    @stateful.rule(host=strategies.sampled_from(world.NODES),
                   what=strategies.sampled_from(
                       ('die', 'start', 'reboot', 'cut', 'join', 'down',
                        'up')))
    def node_fails(self, host, what):
        node = self.world.nodes[host]
        if what == 'die':
            node.running = False
        elif what == 'start':
            node.start()
        elif what == 'reboot':
            node.reboot()
        elif what in ('cut', 'join'):
            node.connected = what == 'join'
        else:
            node.session = what == 'up'

    @stateful.rule(addresses=ADDRESSES)
    def members_fail(self, addresses):
        self.world.dead_members = set(addresses)
        for node in self.world.nodes.values():
            node.probe(self.world.dead_members)

    @stateful.rule(number=ANY)
    def kill_controller(self, number):
        some_of(self.world.controllers, number).kill()

    @stateful.rule()
    def start_controllers(self):
        self.world.start_controllers()

    @stateful.rule(available=BOOLEANS, answers=BOOLEANS)
    def octavia_fails(self, available, answers):
        self.octavia.available = available
        self.octavia.answers = answers

    @stateful.rule(host=strategies.sampled_from(world.NODES),
                   seconds=strategies.sampled_from((-7200, -3, 3, 7200)))
    def clock_of_a_node_jumps(self, host, seconds):
        self.world.nodes[host].ahead_s += seconds


class LongMachine(Machine):
    """Also faults after which the deployment takes long to settle."""

    @stateful.rule(seconds=strategies.sampled_from((-7200, -3, 3, 7200)))
    def clock_of_the_database_jumps(self, seconds):
        self.world.clock.database += seconds

    @stateful.rule()
    def back_up_database(self):
        self.backup = self.world.backup()

    @stateful.precondition(lambda self: self.backup is not None)
    @stateful.rule()
    def restore_database(self):
        self.world.restore(self.backup)


def some_of(things, number):
    return things[number % len(things)]
