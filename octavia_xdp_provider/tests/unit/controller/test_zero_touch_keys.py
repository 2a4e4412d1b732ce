# SPDX-License-Identifier: Apache-2.0
"""Indexes of keys and members give the same results as full scans."""

import dataclasses

from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from octavia_xdp_provider.controller.neutron_ports import findings
from octavia_xdp_provider.controller.store import ways
from octavia_xdp_provider.controller.zero_touch import keys
from octavia_xdp_provider.controller.zero_touch import members
from octavia_xdp_provider.tests.support import untimed
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import hypervisors
from octavia_xdp_provider.tests.unit.controller.cases import several_vips

HOSTS, PORTS, BALANCERS = ('hv1', 'hv2'), ('p1', 'p2'), ('lb1', 'lb2', 'lb3')

KEY = st.builds(
    ways.Key, host=st.sampled_from(HOSTS), key=st.integers(1, 6),
    port_id=st.sampled_from(PORTS), load_balancer_id=st.sampled_from(
        BALANCERS), listener_id=st.just('l'), member_id=st.just('m'),
    entry=st.just({}), unused_generation=st.sampled_from(
        (None, 3, keys.NEVER)), free_at=st.sampled_from((None, 9.0)))
STEPS = st.lists(st.tuples(st.sampled_from(('put', 'remove')), KEY),
                 max_size=40)

WANTED = [findings.Wanted('project', f'10.0.0.{number}')
          for number in range(5)]


@dataclasses.dataclass(frozen=True)
class Port:
    id: str
    host: str


FINDING = st.builds(
    lambda port, host: findings.Finding(port and Port(port, host)),
    st.sampled_from((None, *PORTS)), st.sampled_from(HOSTS))
MEMBER_STEPS = st.lists(st.one_of(
    st.tuples(st.just('replace'), st.sampled_from(BALANCERS),
              st.sets(st.sampled_from(WANTED))),
    st.tuples(st.just('found'), st.sampled_from(WANTED), FINDING)),
    max_size=40)


class TestIndices(base.TestCase):

    @settings(untimed.settings, max_examples=200)
    @given(STEPS)
    def test_indexes_of_keys_agree_with_scans(self, steps):
        tested, model = keys.Keys(), {}
        for what, key in steps:
            if what == 'put':
                tested.put(key)
                model[key.name] = key
            else:
                tested.remove(key.name)
                model.pop(key.name, None)
        rows = [model[name] for name in sorted(model)]
        used = [key for key in rows if key.free_at is None]
        unused = [key for key in used if key.unused_generation is not None]
        self.assertEqual(bool(model), bool(tested))
        self.assertEqual([key for key in rows if key.free_at is not None],
                         tested.quarantined())
        self.assertEqual({key.load_balancer_id for key in unused},
                         tested.unused_balancers())
        self.assertEqual({key.load_balancer_id for key in used
                          if key.unused_generation != keys.NEVER},
                         tested.in_use_by())
        for balancer in BALANCERS:
            self.assertEqual([key for key in rows
                              if key.load_balancer_id == balancer],
                             tested.of_balancer(balancer))
            self.assertEqual([key for key in unused
                              if key.load_balancer_id == balancer],
                             tested.unused_of(balancer))
        for host in HOSTS:
            self.assertEqual(sum(key.host == host for key in used),
                             tested.used_on(host))
            self.assertEqual({key.load_balancer_id for key in rows
                              if key.host == host},
                             tested.balancers_on([host]))
            for port in PORTS:
                self.assertEqual(
                    [key for key in used
                     if (key.host, key.port_id) == (host, port)],
                    tested.used_of_port(host, port))

    @settings(untimed.settings, max_examples=200)
    @given(MEMBER_STEPS)
    def test_indexes_of_members_agree_with_scans(self, steps):
        tested, wanted, model = members.Members(), {}, {}
        for what, name, value in steps:
            if what == 'replace':
                before = set().union(*wanted.values())
                wanted[name] = value
                after = set().union(*wanted.values())
                self.assertEqual(before - after, tested.replace(name, value))
                for member in before - after:
                    model.pop(member, None)
            elif any(name in group for group in wanted.values()):
                tested.put_found({name: value})
                model[name] = value
        everything = set().union(*wanted.values())
        self.assertEqual(everything, set(tested))
        self.assertEqual(bool(everything), bool(tested))
        self.assertEqual(model, tested.found)
        for member in WANTED:
            self.assertEqual({key for key, group in wanted.items()
                              if member in group},
                             tested.balancers_of([member]))
        for host in HOSTS:
            self.assertEqual(
                {key for key, group in wanted.items() for member in group
                 if member in model and model[member].port
                 and model[member].port.host == host},
                tested.balancers_on([host]))
        for port in PORTS:
            self.assertEqual(
                {member: finding.port for member, finding in model.items()
                 if finding.port and finding.port.id == port},
                tested.of_port(port))


class TestAlternatives(hypervisors.ZeroTouchTestCase):

    def tree(self, **more):
        tree = super().tree(**more)
        tree['flavor'] = {'zero_touch': 'required', 'second_chance': True,
                          'encapsulation': 'gue'}
        return tree

    def tunnels(self):
        self.create()
        self.converge()
        return [member['tunnel'] for member in self.sent().values()]

    def test_they_are_named(self):
        for tunnel in self.tunnels():
            self.assertIs(True, tunnel['takes_alternative'])

    def test_mtu_leaves_room_for_alternatives(self):
        """The VM's 1442 bytes fit 1,500 with alternatives, but not 1,480."""
        self.hv1.state['mtu'] = 1480
        self.hv1.report()
        for tunnel in self.tunnels():
            self.assertEqual(1480 - 36 - 12, tunnel['mtu'])

    def test_agents_learn_where_hypervisors_are(self):
        self.assertEqual(
            ['198.18.20.0/24', 'fd00:9::/64'],
            self.hv1.endpoint.fetch({}, host=self.hv1.name, since=0)[
                'common']['peers'])


class TestWithoutSecondChance(hypervisors.ZeroTouchTestCase):

    def test_tunnels_take_no_alternative_by_default(self):
        self.create()
        self.converge()
        for member in self.sent().values():
            self.assertNotIn('takes_alternative', member['tunnel'])


class TestOneFamily(several_vips.SeveralVipsTestCase):

    ADDITIONAL = ['203.0.113.11']

    def test_both_vips_use_the_members_address(self):
        self.create()
        self.converge()
        entries = self.entries(self.hv1, 'm1')
        self.assertEqual({several_vips.VIP, '203.0.113.11'}, set(entries))
        self.assertEqual({hypervisors.ADDRESSES['m1']}, {
            entry['address'] for entry in entries.values()})
        self.assertEqual(2, len({entry['key'] for entry in entries.values()}))
