# SPDX-License-Identifier: Apache-2.0
"""A Prometheus on a lab's control host, as an operator would run it.

It has the configuration and the rules of deploy/prometheus; of these only the
intervals are others, and the lab's hosts are those that it scrapes.
"""

import json
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request

import yaml

from lab import paths
from lab import processes
from lab.control import octavia
from lab.fabric import nodes
from lab.fabric import topology
from octavia_xdp_provider.tests.support import dashboards

NAME = 'prometheus'
ADDRESS = '127.0.0.1:9090'
# Seconds between two scrapes, and two evaluations.
INTERVAL_S = 1
FILES = dashboards.RULES.parent


class Prometheus:
    """From ``start`` to ``stop``, to be asked within the control host.

    :param hypervisors: of the lab, whose agents it scrapes.
    :ivar targets: how many processes it scrapes.
    """

    def __init__(self, lab, hypervisors=()):
        self._lab = lab
        self._hypervisors = hypervisors
        self.targets = (len(octavia.METRICS_PORTS)
                        + len(nodes.METRICS_PORTS) * len(topology.NODES)
                        + len(hypervisors))
        self._directory = lab.host_directory(paths.CONTROL) / NAME

    def start(self):
        self._configure()
        processes.start(self._lab, paths.CONTROL, NAME, [
            'prometheus', f'--web.listen-address={ADDRESS}',
            f'--config.file={self._directory}/prometheus.yaml',
            f'--storage.tsdb.path={self._directory}/data'],
            ready=self._is_ready)

    def stop(self):
        processes.stop(self._lab, NAME)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _configure(self):
        shutil.rmtree(self._directory, ignore_errors=True)
        shutil.copytree(FILES, self._directory)
        path = self._directory / 'prometheus.yaml'
        configuration = yaml.safe_load(path.read_text())
        configuration['global'] = dict.fromkeys(
            configuration['global'], f'{INTERVAL_S}s')
        path.write_text(yaml.safe_dump(configuration))
        hosts = {
            'controllers': [f'{paths.CONTROL_ADDRESS}:{port}'
                            for port in octavia.METRICS_PORTS.values()],
            'nodes': [paths.management_address(node)
                      for node in topology.NODES],
            'hypervisors': [paths.management_address(host)
                            for host in self._hypervisors]}
        for kind, targets in hosts.items():
            path = self._directory / 'octavia-xdp' / f'{kind}.yaml'
            path.parent.mkdir(exist_ok=True)
            path.write_text(yaml.safe_dump([{'targets': targets}]))

    def _is_ready(self):
        try:
            with urllib.request.urlopen(f'http://{ADDRESS}/-/ready',
                                        timeout=5):
                return True
        except OSError:
            return False

    def get(self, path, **parameters):
        """What the HTTP API answers: "data" of it.

        :raises AssertionError: Prometheus refuses the question.
        """
        query = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(
                    f'http://{ADDRESS}/api/v1/{path}?{query}',
                    timeout=30) as answer:
                return json.load(answer)['data']
        except urllib.error.HTTPError as error:
            raise AssertionError(
                f'{parameters}: {error.read().decode()}') from error

    def values(self, query):
        """Of an instant query: [(labels, number)]."""
        answer = self.get('query', query=query, time=f'{time.time():.3f}')
        return [(series['metric'], float(series['value'][1]))
                for series in answer['result']]

    def label_values(self, label, series):
        return self.get(f'label/{label}/values', **{'match[]': series})
