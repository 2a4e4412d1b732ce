# SPDX-License-Identifier: Apache-2.0
"""Files and names in documents exist in the tree."""

import argparse
import pathlib
import re
import typing

from lab.fabric import nodes
import octavia_xdp_provider
from octavia_xdp_provider.cmd import ctl
from octavia_xdp_provider.cmd import host
from octavia_xdp_provider.config import options
from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.health import checks
from octavia_xdp_provider.manage import app
from octavia_xdp_provider.tests.unit import base

PACKAGE = pathlib.Path(octavia_xdp_provider.__file__).parent
ROOT = PACKAGE.parent
LITERAL = re.compile(r'``([^`]+)``')


class TestTables(base.TestCase):
    """Tables that are written by hand name what the code has."""

    def literals(self, page):
        text = (ROOT / 'doc' / 'source' / page).read_text()
        return set(LITERAL.findall(text))

    def test_operations_list_both_kinds_of_outcomes(self):
        text = (ROOT / 'doc/source/admin/operations.rst').read_text()
        self.assertIn('\n.. xdp-outcomes::\n', text)
        self.assertIn('\n.. xdp-probe-outcomes::\n', text)

    def test_hypervisors_list_their_outcomes(self):
        text = (ROOT / 'doc/source/admin/hypervisors.rst').read_text()
        self.assertIn('\n.. xdp-host-outcomes::\n', text)

    def test_page_of_metrics_names_each(self):
        text = (ROOT / 'doc/source/admin/watching.rst').read_text()
        for path in ('agent/metrics.py', 'controller/metrics.py'):
            names = re.findall(
                r"(?:PREFIX \+ |_gauge\(|_family\(|: \(|^ *\(|\n *\()'"
                r"([a-z_]+)', '", (PACKAGE / path).read_text())
            self.assertLess(10, len(names), path)
            self.assertEqual([], [
                name for name in names if not re.search(
                    rf'``{name.removesuffix("_max")}(_total)?``', text)])

    def test_metrics_of_hypervisors_are_named(self):
        text = (ROOT / 'doc/source/admin/hypervisors.rst').read_text()
        names = re.findall(
            r"(?:PREFIX \+ |_gauge\(|^ *\(|\n *\(|in \(\n? *\()'"
            r"([a-z_]+)', '", (PACKAGE / 'host/metrics.py').read_text())
        self.assertLess(9, len(names))
        self.assertEqual([], [
            name for name in names
            if not re.search(rf'``{name}(_total)?``', text)])

    def test_mutable_options_are_named(self):
        text = (ROOT / 'doc/source/admin/watching.rst').read_text()
        mutable = {(group, opt.name) for group, opts in options.GROUPS.items()
                   for opt in opts if opt.mutable}
        self.assertIn(('placement', 'drain_time'), mutable)
        self.assertEqual([], [
            (group, name) for group, name in sorted(mutable)
            if group != 'bgp' and f'``{name}``' not in text])

    def test_table_of_a_members_counters_names_each(self):
        counters = re.findall(
            r'X\([A-Z_]+,\s+"([a-z_]+)"',
            re.sub(r'\\\n', ' ',
                   (ROOT / 'datapath/include/member.h').read_text()))
        self.assertIn('taken_ipip', counters)
        self.assertEqual(set(), set(counters) -
                         self.literals('install/members.rst'))

    def test_options_of_the_members_tool_are_in_its_usage(self):
        tool = ROOT / 'datapath/tools/member'
        options = re.findall(r'\{"([a-z-]+)", (?:required|no)_argument',
                             (tool / 'options.c').read_text())
        usage = (tool / 'usage.c').read_text()
        self.assertIn('vip', options)
        self.assertEqual([], [option for option in options
                              if not re.search(rf'--{option}\b', usage)])

    def test_kernels_that_tests_run_on_are_named(self):
        lines = (ROOT / 'tools/kernels.txt').read_text().splitlines()
        kernels = [line.split()[0] for line in lines
                   if line and not line.startswith('#')]
        for page in ('install/installation.rst', 'contributor/testing.rst'):
            text = (ROOT / 'doc/source' / page).read_text()
            self.assertEqual([], [name for name in kernels if not re.search(
                rf'\b{re.escape(name)}\b', text)], page)

    def test_tables_of_encapsulations_name_each(self):
        for page in ('user/flavors.rst', 'install/installation.rst'):
            self.assertEqual(set(), set(flavor.ENCAPSULATIONS) -
                             self.literals(page), page)

    def test_bytes_of_encapsulations_are_described(self):
        for page in ('install/members.rst', 'contributor/forwarding.rst'):
            text = (ROOT / 'doc' / 'source' / page).read_text()
            self.assertEqual([], [
                name for name in flavor.ENCAPSULATIONS if not re.search(
                    rf'\b{name}\b', text, re.IGNORECASE)], page)

    def test_tables_of_probes_name_each_type(self):
        types = set(typing.get_args(fields.MonitorType))
        self.assertEqual(set(), types -
                         self.literals('user/health-checks.rst'))
        self.assertEqual({name.lower() for name in types}, set(
            checks.SCHEMA['$defs']['check']['properties']['type']['enum']))
        self.assertEqual(set(), {name.lower() for name in types} -
                         self.literals('reference/checks-file.rst'))


class TestCommands(base.TestCase):
    """Each command is in the synopsis of its page."""

    def assert_named(self, page, program, commands):
        text = (ROOT / 'doc' / 'source' / page).read_text()
        self.assertEqual([], [name for name in commands if not re.search(
            rf'^   {program} {name}\b', text, re.MULTILINE)])

    def test_commands_of_an_lb_node(self):
        [commands] = [action.choices for action in ctl.parser()._actions
                      if isinstance(action, argparse._SubParsersAction)]
        self.assertIn('verify', commands)
        self.assert_named('cli/octavia-xdp-ctl.rst', 'octavia-xdp-ctl',
                          commands)

    def test_commands_of_a_hypervisor(self):
        [commands] = [action.choices for action in host.parser()._actions
                      if isinstance(action, argparse._SubParsersAction)]
        self.assertIn('verify', commands)
        self.assert_named('admin/hypervisors.rst', 'octavia-xdp-host',
                          commands)

    def test_commands_of_the_control_host(self):
        self.assert_named('admin/operations.rst', 'octavia-xdp-manage',
                          app.COMMANDS)

    def test_commands_that_help_in_trouble_are_accepted(self):
        """The page's words, with a value for each word in capitals."""
        text = (ROOT / 'doc/source/admin/troubleshooting.rst').read_text()
        lines = [line.split() for line in re.findall(
            r'^ {3,}(octavia-xdp-(?:ctl|host|manage) .*)', text,
            re.MULTILINE)]
        port = '00000000-0000-4000-8000-000000000000'
        parsers = {'octavia-xdp-ctl': ctl.parser(),
                   'octavia-xdp-host': host.parser()}
        for program, *words in lines:
            words = [port if word == 'PORT' else word for word in words]
            if program in parsers:
                parsers[program].parse_args(words)
                continue
            name = ' '.join(words[:2])
            self.assertIn(name if name in app.COMMANDS else words[0],
                          app.COMMANDS)
        self.assertLessEqual(10, len(lines))


class TestUpgrade(base.TestCase):
    """The page of upgrades names what the code has."""

    def text(self):
        return (ROOT / 'doc/source/admin/upgrade.rst').read_text()

    def test_pins_are_named_with_what_each_lacks(self):
        rows = set(re.findall(
            r'\* - ``(\w+)``\n +- ``([\d.]+)``\n', self.text()))
        pins = {(opt.name, value)
                for opt in options.GROUPS['upgrade_levels']
                for value in opt.type.choices if value != opt.default}
        self.assertEqual(pins, rows)

    def test_libraries_are_those_of_this_release(self):
        named = set(re.findall(r'liboctavia_xdp\w*\.so\.\d+', self.text()))
        self.assertEqual({
            opt.default for group in ('datapath', 'host_agent')
            for opt in options.GROUPS[group] if opt.name == 'library'}, named)


class TestClients(base.TestCase):
    """Examples on the page of clients are accepted."""

    def literals(self, pattern):
        text = (ROOT / 'doc/source/user/clients.rst').read_text()
        return set(re.findall(pattern, text))

    def test_algorithms_of_examples_need_no_operator(self):
        self.assertEqual({'SOURCE_IP_PORT'}, self.literals(
            r'(?:lb_algorithm:|lb_algorithm=|lb_method *=|lb-method =) *'
            r"['\"]?(\w+)"))
        self.assertIn('SOURCE_IP_PORT', flavor.ALGORITHMS)

    def test_versions_that_were_run_are_those_that_are_locked(self):
        clients = ROOT / 'lab/clients'
        for name, file, locked in (
                ('gophercloud', 'gophercloud/go.mod',
                 r'gophercloud/v2 (v\S+)$'),
                ("Heat's engine", 'heat/requirements.txt',
                 r'^openstack-heat==(\S+)$'),
                ('Ansible', 'ansible/requirements.txt',
                 r'^ansible==(\S+)$')):
            version = re.search(locked, (clients / file).read_text(),
                                re.MULTILINE)[1]
            self.assertEqual({version}, self.literals(
                rf'\* - {name}\n +- ([^\s,]+)'), name)

    def test_horizons_algorithms_are_accepted_or_served_by_the_hash(self):
        self.assertLessEqual(
            {'LEAST_CONNECTIONS', 'ROUND_ROBIN'},
            set(flavor.ALGORITHMS_BY_HASH))
        self.assertIn('SOURCE_IP', flavor.ALGORITHMS)


class TestBeginnings(base.TestCase):
    """The documents that newcomers read first."""

    def test_readme_has_the_version_of_the_packages(self):
        [named] = re.findall(r'This is version ([\d.]+),',
                             (ROOT / 'README.rst').read_text())
        for path, version in (
                ('hc-agent/Cargo.toml', r'^version = "(.+)"$'),
                ('deploy/debian/changelog', r'^\S+ \((.+)\)')):
            match = re.search(version, (ROOT / path).read_text(),
                              re.MULTILINE)
            self.assertEqual(named, match[1], path)

    def test_tour_has_twenty_files(self):
        text = (ROOT / 'doc/source/contributor/tour.rst').read_text()
        stops = re.findall(r'^(\d+)\. ``(\S+)`` ', text, re.MULTILINE)
        self.assertEqual([str(number) for number in range(1, 21)],
                         [number for number, _ in stops])
        self.assertEqual([], [path for _, path in stops
                              if not (ROOT / path).is_file()])


class TestServices(base.TestCase):

    def test_each_process_of_the_labs_nodes_has_a_service_and_a_row(self):
        page = (ROOT / 'doc/source/contributor/architecture.rst').read_text()
        processes = page[page.index('\nProcesses\n='):]
        for name in nodes.PROCESSES:
            self.assertTrue((ROOT / 'deploy/systemd'
                             / f'octavia-xdp-{name}.service').exists(), name)
            self.assertRegex(processes, rf'\* - (octavia-xdp-)?{name}\n')
