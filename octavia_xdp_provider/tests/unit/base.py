# SPDX-License-Identifier: Apache-2.0
"""Base class of the unit tests, with configuration and a load balancer."""

import threading
import time

from oslotest import base

from octavia_xdp_provider.config import options
from octavia_xdp_provider.contracts import spec

VIP = '203.0.113.10'


class TestCase(base.BaseTestCase):
    """A test with temporary configuration."""

    def load(self, text=''):
        path = self.create_tempfiles([('test', text)], ext='.conf')[0]
        return options.load(config_files=[path])

    def run_in_thread(self, runner):
        """Start run() in a thread, which cleanup stops and waits for."""
        thread = threading.Thread(target=runner.run)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(runner.stop)
        return thread

    def wait_until(self, condition, limit_s=60):
        """Wait for what no event tells."""
        end = time.monotonic() + limit_s
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.005)


def member(address, **more):
    return dict({'address': address, 'protocol_port': 80}, **more)


def tree(**more):
    """A translated load balancer with one listener and two members."""
    return dict({
        'name': 'web', 'project_id': 'p', 'vip_address': VIP,
        'listeners': {'listener': {
            'protocol': 'TCP', 'protocol_port': 80,
            'default_pool_id': 'pool'}},
        'pools': {'pool': {
            'protocol': 'TCP', 'lb_algorithm': 'SOURCE_IP_PORT',
            'members': {'m1': member('198.18.10.11'),
                        'm2': member('198.18.10.12')},
            'healthmonitor': {
                'id': 'hm', 'type': 'HTTP', 'delay': 5, 'timeout': 3,
                'max_retries': 2}}}}, **more)


def numbered_tree(number, **more):
    """A tree whose VIP and ids, but for members, end in a number."""
    result = tree(vip_address=f'203.0.113.{number}', **more)
    pool_id = f'pool{number}'
    result['listeners'] = {f'listener{number}': {
        **result['listeners']['listener'], 'default_pool_id': pool_id}}
    result['pools'] = {pool_id: result['pools']['pool']}
    return result


def document(**more):
    return spec.document('lb', tree(**more))
