# SPDX-License-Identifier: Apache-2.0
"""Within a guest that has VRFs: the guest is a switch, its machines are
network namespaces. Two leases have the same addresses.

    python switch_in_guest.py FOLDER-OF-IFUPDOWN2

What was seen goes to standard output as one line of JSON after "SEEN ".
"""

import ctypes
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import threading
import time

CHECKOUT = pathlib.Path(__file__).parents[4]
FOLDER = pathlib.Path('/root/bed')
VIP = '203.0.113.10'
# What no machine may announce.
FOREIGN = '198.51.100.0/24'
PORT = 8080
CLONE_NEWNET = 0x40000000
# Emulated processors take their time.
WAIT_S = 600
INVENTORY = '''\
switches:
  leaf1: {address: 127.0.0.1, as: 65000, connection: local,
           announced: [203.0.113.0/24]}
machines:
  m1:
    role: load_balancer
    address: 192.0.2.11
    ports:
    - switch: leaf1
      port: swp1
      addresses: [198.18.1.1/30]
      bgp: {address: 198.18.1.2, as: 65001}
  m2:
    role: load_balancer
    address: 192.0.2.12
    ports:
    - switch: leaf1
      port: swp2
      addresses: [198.18.1.1/30]
      bgp: {address: 198.18.1.2, as: 65001}
  m3:
    role: generator
    address: 192.0.2.13
    ports:
    - {switch: leaf1, port: swp3, addresses: [198.18.0.1/24]}
'''
_BGPD = f'''\
hostname machine
router bgp 65001
 bgp router-id 198.18.1.2
 no bgp ebgp-requires-policy
 no bgp network import-check
 timers bgp 3 9
 neighbor 198.18.1.1 remote-as 65000
 neighbor 198.18.1.1 timers connect 5
 address-family ipv4 unicast
  network {VIP}/32
  network {FOREIGN}
 exit-address-family
'''


_APPLY = f'''\
#!{sys.executable}
import json, pathlib, shutil, subprocess, sys
hosts = json.loads(pathlib.Path(sys.argv[2]).read_text())
host = hosts['switches']['hosts']['leaf1']
changed = 0
for key, target in (('frr_file', '/etc/frr/frr.conf'),
                    ('interfaces_file',
                     '/etc/network/interfaces.d/octavia-xdp-bench')):
    source, target = pathlib.Path(host[key]), pathlib.Path(target)
    if not target.exists() or target.read_text() != source.read_text():
        shutil.copy(source, target)
        changed += 1
if changed:
    for words in (['vtysh', '--dryrun', '--inputfile', '/etc/frr/frr.conf'],
                  ['/usr/lib/frr/frr-reload.py', '--reload',
                   '/etc/frr/frr.conf'], ['ifreload', '--all']):
        subprocess.run(words, check=True)
print(f'leaf1 : ok=3 changed={{changed}} unreachable=0 failed=0')
'''


def run(*words, check=True, **more):
    """Its standard output."""
    print('+', *words, flush=True)
    done = subprocess.run([str(word) for word in words], check=False,
                          text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          **more)
    if check and done.returncode:
        sys.exit(f'{words}: {done.returncode}: {done.stdout}')
    return done.stdout


def wait(condition):
    """Whether it became true."""
    end = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(1)
    return True


def install(ifupdown2):
    """ifupdown2 as its package has it, without its units; FRR runs."""
    shutil.copytree(ifupdown2 / 'usr/share/ifupdown2',
                    '/usr/share/ifupdown2')
    shutil.copytree(ifupdown2 / 'etc/network/ifupdown2',
                    '/etc/network/ifupdown2')
    for name in 'ifup', 'ifdown', 'ifquery', 'ifreload':
        os.symlink('/usr/share/ifupdown2/__main__.py', f'/usr/sbin/{name}')
    os.chmod('/usr/share/ifupdown2/__main__.py', 0o755)  # noqa: S103
    for path in '/run/network', '/etc/network/interfaces.d':
        os.makedirs(path, exist_ok=True)
    pathlib.Path('/etc/network/interfaces').write_text(
        'auto lo\niface lo inet loopback\n'
        'source /etc/network/interfaces.d/*\n')
    run('hostname', 'leaf1')
    conf = pathlib.Path('/etc/frr/frr.conf')
    conf.write_text('frr defaults datacenter\n')
    shutil.chown(conf, 'frr', 'frr')
    # Without watchfrr: on emulated processors daemons answer too late for it.
    for daemon in 'zebra', 'bgpd', 'staticd':
        run(f'/usr/lib/frr/{daemon}', '--daemon', '-F', 'datacenter',
            '-A', '127.0.0.1')


def make_machines():
    for number, address in ((1, '198.18.1.2/30'), (2, '198.18.1.2/30'),
                            (3, '198.18.0.2/24')):
        name = f'm{number}'
        ip = 'ip', '-n', name
        run('ip', 'netns', 'add', name)
        run('ip', 'link', 'add', f'swp{number}', 'type', 'veth', 'peer',
            'name', 'eth0', 'netns', name)
        run(*ip, 'address', 'add', address, 'dev', 'eth0')
        for link in 'lo', 'eth0':
            run(*ip, 'link', 'set', link, 'up')
        run(*ip, 'route', 'add', 'default', 'via',
            address.split('/')[0][:-1] + '1')
        if number < 3:
            run(*ip, 'address', 'add', f'{VIP}/32', 'dev', 'lo')
            start_speaker(name)
        serve(name)


def start_speaker(name):
    own = pathlib.Path('/etc/frr') / name
    own.mkdir()
    (own / 'bgpd.conf').write_text(_BGPD)
    run('chown', '-R', 'frr:frr', own)
    run('ip', 'netns', 'exec', name, '/usr/lib/frr/bgpd', '--daemon',
        '--no_zebra', '-N', name, '-f', own / 'bgpd.conf')


def enter(namespace):
    """This thread, into a network namespace."""
    if ctypes.CDLL(None).setns(namespace.fileno(), CLONE_NEWNET):
        sys.exit('no way into a namespace')


def serve(name):
    """Answer with the machine's name, on all its addresses."""
    with open(f'/run/netns/{name}') as namespace:
        def listen():
            enter(namespace)
            listener = socket.create_server(('0.0.0.0', PORT))
            started.set()
            while True:
                connection, _ = listener.accept()
                connection.sendall(name.encode())
                connection.close()
        started = threading.Event()
        threading.Thread(target=listen, daemon=True).start()
        if not started.wait(WAIT_S):
            sys.exit(f'{name} does not serve')


def answer(address, device=None, namespace=None):
    """Who answers there, None if nobody does."""
    found = []

    def ask():
        if namespace is not None:
            with open(f'/run/netns/{namespace}') as file:
                enter(file)
        with socket.socket() as asking:
            asking.settimeout(10)
            if device is not None:
                asking.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE,
                                  device.encode())
            try:
                asking.connect((address, PORT))
                found.append(asking.recv(100).decode())
            except OSError:
                found.append(None)
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return found[0] if found else None


def make_playbook_program():
    """What the playbook does, in its order and without Ansible, whose start
    alone takes minutes on emulated processors.
    """
    path = FOLDER / 'apply'
    path.write_text(_APPLY)
    path.chmod(0o755)
    return path


def bed(*words, owner='alice'):
    return run(sys.executable, '-m', 'bench', 'bed', f'--folder={FOLDER}',
               f'--owner={owner}', f'--ansible-playbook={FOLDER}/apply',
               *words, cwd=CHECKOUT)


def vrfs():
    return sorted(one['ifname'] for one in json.loads(
        run('ip', '-json', 'link', 'show', 'type', 'vrf')) if one)


def vtysh(*words):
    return run('vtysh', '-c', ' '.join(words), check=False)


def main():
    install(pathlib.Path(sys.argv[1]))
    make_machines()
    FOLDER.mkdir()
    (FOLDER / 'inventory.yaml').write_text(INVENTORY)
    make_playbook_program()
    seen = {'before': vrfs()}
    bed('reserve', 'm1', '--purpose', 'one')
    bed('reserve', 'm2', 'm3', '--purpose', 'two', owner='bob')
    seen['first sync'] = bed('sync')
    seen['vrfs'] = vrfs()
    for name, vrf in ('m1', 'bed1'), ('m2', 'bed2'):
        seen[f'{vrf} has learned'] = wait(
            lambda vrf=vrf: answer(VIP, vrf) is not None)
        seen[f'{vrf} at 198.18.1.2'] = answer('198.18.1.2', vrf)
        seen[f'{vrf} at the VIP'] = answer(VIP, vrf)
        seen[f'{vrf} learned what is foreign'] = \
            FOREIGN in vtysh('show ip route vrf', vrf)
        seen[f'm3 from {name}'] = answer('198.18.0.2', namespace=name)
    seen['the VIP from m3'] = answer(VIP, namespace='m3')
    seen['second sync'] = bed('sync')
    bed('release', '1')
    seen['third sync'] = bed('sync')
    seen['vrfs at the end'] = vrfs()
    seen['bed2 at the end'] = answer(VIP, 'bed2')
    seen['swp1 at the end'] = json.loads(
        run('ip', '-json', 'address', 'show', 'swp1'))[0]
    seen['frr at the end'] = vtysh('show running-config')
    print('SEEN ' + json.dumps(seen), flush=True)


if __name__ == '__main__':
    main()
