# SPDX-License-Identifier: Apache-2.0
"""A bed of three machines that are reached by ssh."""

import pathlib
import uuid

from bench.beds import reading
from bench.beds import ssh
from bench.declarations import document
from octavia_xdp_provider.tests.functional.bench import ssh_machines
from octavia_xdp_provider.tests.support import form

BED = '''\
name: machines
provider: ssh
ssh: {{key: {key}}}
hosts:
  gen:
    role: generator
    ssh: {{address: 192.0.2.11, host_key: {gen}, interfaces: {{front: ens1}}}}
    routes:
      - {{to: 203.0.113.0/24, via: lb}}
  lb:
    role: load_balancer
    loopback: [203.0.113.1/32]
    sysctl: {{net.ipv4.ip_forward: 1}}
    ssh:
      address: 192.0.2.12
      host_key: {lb}
      interfaces: {{front: ens1, back: ens2}}
  sink:
    role: sink
    ssh: {{address: 192.0.2.13, host_key: {sink}, interfaces: {{back: ens1}}}}
links:
  front:
    ends: [gen, lb]
    networks: [198.19.0.0/30, '2001:db8:19::/126']
    mtu: 1600
    offloads: {{tx: off}}
    permanent_neighbours: true
  back:
    ends: [lb, sink]
    networks: [198.19.1.0/30]
'''


@form.in_long_form
class BedCase(ssh_machines.SshCase):

    ADDRESSES = {'gen': '192.0.2.11', 'lb': '192.0.2.12',
                 'sink': '192.0.2.13'}
    LINKS = [(('gen', 'ens1'), ('lb', 'ens1')),
             (('lb', 'ens2'), ('sink', 'ens1'))]

    def text(self, **keys):
        return BED.format(
            key=self.machines.lab.directory / ssh_machines.OPERATOR,
            **{**self.machines.keys, **keys})

    def build(self, text=None, run=None):
        return ssh.Provider().build(
            reading.from_document(document.parse(
                text or self.text(), pathlib.Path('bed.yaml'),
                reading.SCHEMA)),
            run or f'test-{uuid.uuid4().hex[:12]}')
