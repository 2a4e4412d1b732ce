# SPDX-License-Identifier: Apache-2.0
"""Roles of Ansible: their variables, the sample inventory, what they write."""

import pathlib
import re

import jinja2
import jinja2.meta
import yaml

from octavia_xdp_provider.agent.bgp import exabgp_config
from octavia_xdp_provider.tests.unit import base

PLAYBOOKS = pathlib.Path(__file__).parents[3] / 'deploy/ansible'
INVENTORY = PLAYBOOKS / 'inventory/hosts.yaml'
ROLES = sorted(path.name for path in (PLAYBOOKS / 'roles').iterdir())
FILES = {'control_host': ['octavia-xdp.conf'],
         'lb_node': ['octavia-xdp.conf', 'exabgp.conf'],
         'hypervisor': ['octavia-xdp.conf'],
         'bird_router': ['bird.conf'],
         'member': ['member.conf']}


def _environment():
    # The same settings as Ansible's.
    environment = jinja2.Environment(  # noqa: S701 not HTML
        trim_blocks=True, keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined)
    environment.globals['ansible_managed'] = 'Ansible managed'
    return environment


def _read(path):
    return yaml.safe_load(path.read_text()) if path.exists() else {}


def _defaults(role):
    return _read(PLAYBOOKS / 'roles' / role / 'defaults/main.yaml')


def _specified(role):
    specs = _read(PLAYBOOKS / 'roles' / role / 'meta/argument_specs.yaml')
    return specs['argument_specs']['main']['options']


def _groups():
    """Role → the group of the inventory that it is for."""
    return {play['roles'][0]: play['hosts']
            for play in yaml.safe_load((PLAYBOOKS / 'site.yaml').read_text())}


def _hosts(group):
    """Host → its variables, and those of its groups."""
    inventory = yaml.safe_load(INVENTORY.read_text())
    members = inventory[group]
    return {name: {**inventory['all']['vars'], **members.get('vars', {}),
                   **(own or {})} for name, own in members['hosts'].items()}


def _evaluate(value, variables):
    """A default: a literal, or one expression."""
    if not isinstance(value, str) or '{{' not in value:
        return value
    expression = re.fullmatch(r'\{\{ (.*) \}\}', value)[1]
    return _environment().compile_expression(
        expression, undefined_to_none=False)(**variables)


def _variables(role, given):
    variables = {name: _evaluate(value, given)
                 for name, value in _defaults(role).items()}
    missing = [name for name, value in variables.items()
               if isinstance(value, jinja2.Undefined)]
    assert not missing, f'{role}: the sample does not have {missing}'
    return variables


def _render(role, name, given):
    folder = PLAYBOOKS / 'roles' / role / 'templates'
    return _environment().from_string(
        (folder / f'{name}.j2').read_text()).render(_variables(role, given))


class TestRoles(base.TestCase):

    def test_each_variable_is_described_and_has_a_default(self):
        for role in ROLES:
            with self.subTest(role):
                self.assertEqual(list(_defaults(role)),
                                 list(_specified(role)))

    def test_required_is_what_the_inventory_has_to_say(self):
        for role in ROLES:
            for name, argument in _specified(role).items():
                with self.subTest(name):
                    default = _defaults(role)[name]
                    asked = (isinstance(default, str)
                             and 'octavia_xdp_' in default
                             and 'default(' not in default)
                    self.assertEqual(
                        asked or name == 'packages_names',
                        argument.get('required', False))

    def test_templates_use_what_the_role_has(self):
        for role, names in FILES.items():
            folder = PLAYBOOKS / 'roles' / role / 'templates'
            self.assertEqual(sorted(f'{name}.j2' for name in names),
                             sorted(path.name for path in folder.iterdir()))
            for path in folder.iterdir():
                with self.subTest(str(path)):
                    used = jinja2.meta.find_undeclared_variables(
                        _environment().parse(path.read_text()))
                    self.assertLessEqual(
                        used - {'ansible_managed'}, set(_defaults(role)))

    def test_tasks_use_what_the_role_has(self):
        for role in ROLES:
            known = {*_defaults(role), *_read(
                PLAYBOOKS / 'roles' / role / 'vars/main.yaml')}
            text = ''.join(
                path.read_text() for kind in ('tasks', 'handlers') for path in
                (PLAYBOOKS / 'roles' / role / kind).glob('*.yaml'))
            known |= set(re.findall(r'register: (\w+)', text))
            known |= set(re.findall(r'^ +(\w+_began):', text, re.M))
            used = set(re.findall(
                rf'(?<![\w/]){role}_\w+', text)) if text else set()
            with self.subTest(role):
                self.assertEqual(set(), used - known)

    def test_sample_has_a_host_for_each_role(self):
        groups = _groups()
        self.assertEqual(set(FILES), set(groups))
        for role, group in groups.items():
            for host, given in _hosts(group).items():
                for name in FILES[role]:
                    with self.subTest(host=host, name=name):
                        self.assertIn('Ansible managed',
                                      _render(role, name, given))

    def test_configuration_is_one_that_the_product_takes(self):
        for role in ('control_host', 'lb_node', 'hypervisor'):
            for host, given in _hosts(_groups()[role]).items():
                with self.subTest(host):
                    conf = self.load(_render(role, 'octavia-xdp.conf', given))
                    self.assertEqual(
                        given.get('octavia_xdp_host', conf.host), conf.host)

    def test_networks_of_vms_are_the_controllers_alone(self):
        given, = _hosts('control_hosts').values()
        for more, expected in (
                ({}, given['octavia_xdp_vm_networks']),
                ({'octavia_xdp_vm_networks': []}, [])):
            conf = self.load(_render('control_host', 'octavia-xdp.conf',
                                     {**given, **more}))
            self.assertEqual(expected, conf.zero_touch.member_networks)
        for given in _hosts('lb_nodes').values():
            self.assertNotIn('10.0.0.0/8', _render(
                'lb_node', 'octavia-xdp.conf', given))

    def test_roles_configure_the_networks_of_vips(self):
        for role in ('control_host', 'lb_node'):
            for given in _hosts(_groups()[role]).values():
                conf = self.load(_render(role, 'octavia-xdp.conf', given))
                self.assertEqual(given['octavia_xdp_vip_denied_networks'],
                                 conf.vip.denied_networks)
                self.assertEqual(
                    given['octavia_xdp_vip_network_ids']
                    if role == 'control_host' else [], conf.vip.network_ids)

    def test_exabgp_conf_is_the_product_s(self):
        for given in _hosts('lb_nodes').values():
            own = given['octavia_xdp_address']
            expected = exabgp_config.render(own, [exabgp_config.Neighbour(
                local_address=own, local_as=given['octavia_xdp_node_as'],
                peer_address=router, peer_as=given['octavia_xdp_router_as'])
                for router in given['octavia_xdp_routers']],
                ['/usr/bin/octavia-xdp-announcer', '--file',
                 '/run/octavia-xdp/announcements.json', *(
                     word for network in given['octavia_xdp_vip_networks']
                     for word in ('--network', network))])
            self.assertEqual(_statements(expected), _statements(
                _render('lb_node', 'exabgp.conf', given)))


def _statements(text):
    return [line for line in map(str.strip, text.splitlines())
            if line and not line.startswith('#')]
