# SPDX-License-Identifier: Apache-2.0
"""Alerts for Prometheus: what each notices, and what it leaves alone.

promtool judges the rules themselves; here is what it is given. ``WELL`` are
metrics of a node and two controllers about which nobody shall be woken, some
of them just below a limit. Each fault changes some of them.
"""

import json
import pathlib
import re
import subprocess
import tempfile

import yaml

from octavia_xdp_provider.contracts import enumerations
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit import exported

ROOT = pathlib.Path(__file__).parents[3]
WATCHING = ROOT / 'doc/source/admin/watching.rst'
RULES = ROOT / 'deploy/prometheus/octavia-xdp.rules.yaml'
# In promtool's notation, a value each minute: 1x3 is 1 1 1 1, 0+2x3 is
# 0 2 4 6, _ is nothing.
ALWAYS = '{}x60'
A = 'octavia_xdp_agent_'
C = 'octavia_xdp_controller_'
H = 'octavia_xdp_result_handler_'
DROPS = 'octavia_xdp_outcome_packets_total{{instance="lb1",outcome="{}"}}'
NIC_DROPS = 'node_network_receive_drop_total{{instance="{}",device="eth0"}}'
CALLS = (C + 'outgoing_calls{instance="control1",service="Octavia\'s API",'
         'state="waiting"}')
BGP = A + 'bgp_session_up{{instance="lb1",neighbour="{}"}}'
PROCESS = A + 'process_up{{instance="lb1",process="{}"}}'
LEADER = C + 'leader{{instance="{}"}}'
CONDITION = (C + 'node_condition{{instance="control1",host="{}",'
             'condition="{}"}}')
IN_ONE_ZONE = C + 'load_balancers_in_one_zone{{instance="control1",zone="{}"}}'
EXPIRING = C + 'load_balancers_expiring{{instance="control1",days="{}"}}'
LAG = C + 'node_lag_generations{{instance="control1",host="{}"}}'
DELAYED = C + 'delayed_calls_total{{instance="control1",host="{}"}}'
LATENCY = H + 'latency_seconds_bucket{{instance="lb1",le="{}"}}'
V = 'octavia_xdp_host_'
OUTCOME = V + 'packets_total{{instance="hv1",outcome="{}"}}'
SILENCE = (C + 'hypervisor_silence_seconds{{instance="control1",host="{}"}}')
HV1 = '{instance="hv1"}'
LB1 = '{instance="lb1"}'
CONTROL1 = '{instance="control1"}'

WELL = {
    A + 'announcements{instance="lb1",state="announced"}': '4x60',
    A + 'announcements{instance="lb1",state="waiting"}': '0x9 3 3 0x49',
    A + 'announcements{instance="lb1",state="failed"}': '0x60',
    A + 'announcer_up' + LB1: '1x60',
    BGP.format('192.0.2.1'): '1x60',
    BGP.format('192.0.2.2'): '1x60',
    A + 'uplinks_ready{instance="lb1",version="4"}': '1x60',
    A + 'uplinks_ready{instance="lb1",version="6"}': '0x60',
    # Packets that tenants have forbidden, and an occasional scan.
    DROPS.format('drop_not_allowed'): '0+90000x60',
    DROPS.format('drop_no_member'): '0+540x60',
    DROPS.format('drop_internal'): '0x60',
    DROPS.format('flow_table_full'): '0x60',
    DROPS.format('drop_nat_full'): '0x60',
    NIC_DROPS.format('lb1'): '0+540x60',
    # Not an LB node.
    NIC_DROPS.format('db1'): '0+90000x60',
    A + 'services' + LB1: '9000x60',
    A + 'services_max' + LB1: '10000x60',
    A + 'members' + LB1: '9000x60',
    A + 'members_max' + LB1: '10000x60',
    A + 'failed_load_balancers' + LB1: '0x9 1x3 0x46',
    A + 'controller_silence_seconds' + LB1: '120x60',
    PROCESS.format('octavia-xdp-hc'): '1x60',
    PROCESS.format('octavia-xdp-result-handler'): '1x60',
    H + 'checker_stretch' + LB1: '1x60',
    LATENCY.format('0.1'): '0+100x60',
    LATENCY.format('2.5'): '0+100x60',
    LATENCY.format('+Inf'): '0+100x60',
    H + 'failures_total' + LB1: '3x60',
    H + 'rejected_files_total{instance="lb1",reason="malformed"}': '2x60',
    LEADER.format('control1'): '1x60',
    LEADER.format('control2'): '0x60',
    C + 'database_up' + CONTROL1: '1x60',
    C + 'work_due_seconds' + CONTROL1: '9x60',
    C + 'waiting_lookups_seconds' + CONTROL1: '60x60',
    CALLS: '0x9 1 1 1 0x48',
    CONDITION.format('lb1', 'live'): '1x60',
    # While a node that died is replaced.
    IN_ONE_ZONE.format('west'): '0x9 5x3 0x46',
    # One certificate is about to be replaced, and three were forgotten.
    EXPIRING.format('0'): '3x60',
    EXPIRING.format('7'): '3x9 4x20 3x29',
    EXPIRING.format('30'): '9x60',
    CONDITION.format('lb2', 'draining'): '1x60',
    CONDITION.format('lb3', 'disabled'): '1x60',
    # An agent that has just started.
    DELAYED.format('lb1'): '0x9 200x51',
    LAG.format('lb1'): '0x9 3x3 0x46',
    LAG.format('lb3'): '7x60',
    'octavia_xdp_loop_age_seconds{instance="lb1",loop="worker"}': '120x60',
    SILENCE.format('hv1'): '2x60',
    V + 'controller_silence_seconds' + HV1: '120x60',
    V + 'failed' + HV1: '0x9 1x3 0x46',
    # Packets that rules forbid, and those during a migration.
    OUTCOME.format('drop_not_allowed'): '0+90000x60',
    OUTCOME.format('drop_no_tap'): '0+540x60',
    OUTCOME.format('flows_full'): '0x60',
    V + 'open_vswitch_known' + HV1: '1x60',
    V + 'discarded_flows_total' + HV1: '7x60',
}
# Alert → what is different, and the labels that it says it of. It begins in
# the tenth minute.
FAULTS = {
    'VipNotAnnounced': (
        {A + 'announcements{instance="lb1",state="failed"}': '0x9 1x50'},
        {'instance': 'lb1'}),
    'AnnouncerDown': (
        {A + 'announcer_up' + LB1: '1x9 0x50'}, {'instance': 'lb1'}),
    'BgpSessionDown': (
        {BGP.format('192.0.2.2'): '1x9 0x50'},
        {'instance': 'lb1', 'neighbour': '192.0.2.2'}),
    'NodeWithoutBgp': (
        {BGP.format('192.0.2.1'): '1x9 0x50',
         BGP.format('192.0.2.2'): '1x9 0x50'}, {'instance': 'lb1'}),
    'NoUplink': (
        {A + 'uplinks_ready{instance="lb1",version="4"}': '1x9 0x50'},
        {'instance': 'lb1'}),
    'Drops': (
        {DROPS.format('drop_no_next_hop'): '0x9 0+660x50'},
        {'instance': 'lb1', 'outcome': 'drop_no_next_hop'}),
    'InternalDrops': (
        {DROPS.format('drop_internal'): '0x9 0+1x50'},
        {'instance': 'lb1', 'outcome': 'drop_internal'}),
    'FlowTableFull': (
        {DROPS.format('flow_table_full'): '0x9 0+1x50'},
        {'instance': 'lb1', 'outcome': 'flow_table_full'}),
    'NatFull': (
        {DROPS.format('drop_nat_full'): '0x9 0+1x50'},
        {'instance': 'lb1', 'outcome': 'drop_nat_full'}),
    'NicDrops': (
        {NIC_DROPS.format('lb1'): '0x9 0+660x50'},
        {'instance': 'lb1', 'device': 'eth0'}),
    'TablesNearlyFull': (
        {A + 'members' + LB1: '9000x9 9001x50'}, {'instance': 'lb1'}),
    'CheckerOverloaded': (
        {H + 'checker_stretch' + LB1: '1x9 1.2x50'}, {'instance': 'lb1'}),
    'ProcessDown': (
        {PROCESS.format('octavia-xdp-result-handler'): '1x9 0x50'},
        {'instance': 'lb1', 'process': 'octavia-xdp-result-handler'}),
    'ResultsLate': (
        {LATENCY.format('0.1'): '0+100x9 950+90x50'}, {'instance': 'lb1'}),
    'ResultsFail': (
        {H + 'failures_total' + LB1: '3x9 4+1x50'}, {'instance': 'lb1'}),
    'NoLeader': ({LEADER.format('control1'): '1x9 0x50'}, {}),
    'TwoLeaders': ({LEADER.format('control2'): '0x9 1x50'}, {}),
    'NoController': (
        {LEADER.format('control1'): '1x9 _x50',
         LEADER.format('control2'): '0x9 _x50'}, {}),
    'DatabaseDown': (
        {C + 'database_up' + CONTROL1: '1x9 0x50'},
        {'instance': 'control1'}),
    'WorkWaits': ({C + 'work_due_seconds' + CONTROL1: '0x9 11x50'}, {}),
    'OutgoingCallsWait': (
        {CALLS: '0x9 1x50'},
        {'instance': 'control1', 'service': 'Octavia\'s API'}),
    'LookupsWait': (
        {C + 'waiting_lookups_seconds' + CONTROL1: '0x9 61x50'}, {}),
    'NodeSilent': (
        {CONDITION.format('lb1', 'live'): '1x9 _x50',
         CONDITION.format('lb1', 'silent'): '_x9 1x50'},
        {'host': 'lb1', 'condition': 'silent'}),
    'NodeLags': ({LAG.format('lb1'): '0x9 4x50'}, {'host': 'lb1'}),
    'LoadBalancersInOneZone': (
        {IN_ONE_ZONE.format('east'): '0x9 7x50'}, {'zone': 'east'}),
    'CertificatesExpire': ({EXPIRING.format('7'): '3x9 4x50'}, {}),
    'CallsDelayed': (
        {DELAYED.format('lb1'): '0x9 0+120x50'}, {'host': 'lb1'}),
    'LoadBalancersFail': (
        {A + 'failed_load_balancers' + LB1: '0x9 2x50'},
        {'instance': 'lb1'}),
    'NodeAlone': (
        {A + 'controller_silence_seconds' + LB1: '2x9 121x50'},
        {'instance': 'lb1'}),
    'LoopHangs': (
        {'octavia_xdp_loop_age_seconds{instance="lb1",loop="worker"}':
         '30x9 121x50'}, {'instance': 'lb1', 'loop': 'worker'}),
    'HypervisorSilent': (
        {SILENCE.format('hv1'): '2x9 121x50'}, {'host': 'hv1'}),
    'HypervisorAlone': (
        {V + 'controller_silence_seconds' + HV1: '2x9 121x50'},
        {'instance': 'hv1'}),
    'HypervisorFails': (
        {V + 'failed' + HV1: '0x9 1x50'}, {'instance': 'hv1'}),
    'HypervisorDrops': (
        {OUTCOME.format('drop_no_reply'): '0x9 0+660x50'},
        {'instance': 'hv1', 'outcome': 'drop_no_reply'}),
    'HypervisorFlowsFull': (
        {OUTCOME.format('flows_full'): '0x9 0+1x50'},
        {'instance': 'hv1', 'outcome': 'flows_full'}),
    'HypervisorFlowsDiscarded': (
        {V + 'discarded_flows_total' + HV1: '0x9 0+100x50'},
        {'instance': 'hv1'}),
    'HypervisorWithoutOpenVswitch': (
        {V + 'open_vswitch_known' + HV1: '1x9 0x50'},
        {'instance': 'hv1'}),
}
# One whole outage is more than one alert.
ALSO = {'NodeWithoutBgp': [
    ('BgpSessionDown', {'instance': 'lb1', 'neighbour': neighbour})
    for neighbour in ('192.0.2.1', '192.0.2.2')]}


def rules():
    """Name without its prefix → rule."""
    groups = yaml.safe_load(RULES.read_text())['groups']
    return {rule['alert'].removeprefix('OctaviaXdp'): rule
            for group in groups for rule in group['rules']}


def case_of(name, different, expected):
    """One of promtool's; ``expected``: (alert, labels) at the 50th minute."""
    firing = [{
        'labels': 'ALERTS' + labels_of({
            'alertname': 'OctaviaXdp' + alert, 'alertstate': 'firing',
            'severity': rules()[alert]['labels']['severity'], **labels}),
        'value': 1} for alert, labels in expected]
    question = 'ALERTS{alertstate="firing"}'
    return {
        'name': name, 'interval': '1m',
        'input_series': [{'series': series, 'values': values} for
                         series, values in {**WELL, **different}.items()],
        'promql_expr_test': [
            {'expr': question, 'eval_time': '8m', 'exp_samples': []},
            {'expr': question, 'eval_time': '50m', 'exp_samples': firing}]}


def labels_of(labels):
    pairs = ','.join(f'{key}={json.dumps(value)}'
                     for key, value in labels.items())
    return f'{{{pairs}}}'


class TestRules(base.TestCase):

    def promtool(self, cases):
        """Return promtool's errors for test cases; None if they pass."""
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, 'cases.json')
            path.write_text(json.dumps({
                'rule_files': [str(RULES)], 'evaluation_interval': '1m',
                'tests': cases}))
            done = subprocess.run(
                ['promtool', 'test', 'rules', str(path)],
                capture_output=True, text=True, check=False)
        return done.stdout + done.stderr if done.returncode else None

    def test_healthy_system_raises_no_alert(self):
        self.assertIsNone(self.promtool([case_of('well', {}, [])]))

    def test_each_fault_is_noticed_and_nothing_else(self):
        self.assertEqual(sorted(rules()), sorted(FAULTS))
        self.assertIsNone(self.promtool([
            case_of(name, different, [(name, labels),
                                        *ALSO.get(name, ())])
            for name, (different, labels) in FAULTS.items()]))

    def test_fault_that_is_not_noticed_fails(self):
        self.assertIn('OctaviaXdpNoLeader', self.promtool(
            [case_of('none', {}, [('NoLeader', {})])]))

    def test_metrics_of_rules_are_there(self):
        names = set(re.findall(r'octavia_xdp_[a-z_]+', ' '.join(
            rule['expr'] for rule in rules().values())))
        self.assertLess(10, len(names))
        self.assertEqual(set(), names - exported.names())

    def test_each_says_what_it_is_and_what_to_do(self):
        for name, rule in rules().items():
            self.assertEqual({'summary', 'description'},
                             set(rule['annotations']), name)
            self.assertIn(rule['labels']['severity'],
                          ('critical', 'warning'), name)


class TestBounds(base.TestCase):
    """The page says truly where it is seen that a bound is reached."""

    def setUp(self):
        super().setUp()
        text = WATCHING.read_text()
        begin = text.index('Bounds that are reached\n---')
        self.literals = set(re.findall(
            '``([^`]+)``', text[begin:text.index('Prometheus\n---')]))

    def test_metrics_and_alerts(self):
        metrics = {name for name in self.literals
                   if name.startswith('octavia_xdp_')}
        alerts = {name for name in self.literals
                  if name.startswith('OctaviaXdp')}
        self.assertLess(8, len(metrics))
        self.assertLess(5, len(alerts))
        self.assertEqual(set(), metrics - exported.names())
        self.assertEqual(set(), alerts - {
            'OctaviaXdp' + name for name in rules()})

    def test_outcomes(self):
        outcomes = {name for name in self.literals if re.fullmatch(
            '(drop|sent|nat|fragment|flow|flows|half|memory)_[a-z_]+', name)}
        self.assertLess(8, len(outcomes))
        known = {outcome.name.lower() for outcome in (
            *enumerations.Outcome, *enumerations.HostOutcome)}
        self.assertEqual(set(), outcomes - known)
