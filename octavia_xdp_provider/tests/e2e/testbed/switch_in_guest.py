# SPDX-License-Identifier: Apache-2.0
"""Within a guest that has VRFs: the guest is a switch, which sshd lets its
manager in to; its machines are network namespaces, of which two have the same
addresses.

    python switch_in_guest.py serve FOLDER

FOLDER has ifupdown2, unpacked, the host's key and that of the manager. It
ends with the guest.

    python switch_in_guest.py look

By ssh: what the switch has now, and who reaches whom, as one line of JSON.
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

ADDRESS = '192.0.2.2'
VIP = '203.0.113.10'
# What no machine may announce.
FOREIGN = '198.51.100.0/24'
PORT = 8080
CLONE_NEWNET = 0x40000000
# Emulated processors take their time.
WAIT_S = 600
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


def run(*words, check=True):
    """Its standard output."""
    done = subprocess.run([str(word) for word in words], check=False,
                          text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
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
    answers = []

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
                answers.append(asking.recv(100).decode())
            except OSError:
                answers.append(None)
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return answers[0] if answers else None


def vrfs():
    return sorted(link['ifname'] for link in json.loads(
        run('ip', '-json', 'link', 'show', 'type', 'vrf')) if link)


def vtysh(*words):
    return run('vtysh', '-c', ' '.join(words), check=False)


def start_sshd(folder):
    """On the network card, for keys alone."""
    run('modprobe', 'virtio_net')
    run('ip', 'address', 'add', f'{ADDRESS}/24', 'dev', 'eth0')
    run('ip', 'link', 'set', 'eth0', 'up')
    # A locked account is refused where there is no PAM.
    run('usermod', '--password', '*', 'root')
    os.makedirs('/run/sshd', exist_ok=True)
    run('/usr/sbin/sshd', '-f', '/dev/null', '-h', folder / 'host',
        '-o', f'AuthorizedKeysFile={folder}/manager.pub',
        '-o', 'StrictModes=no', '-o', 'PasswordAuthentication=no',
        '-o', 'PermitRootLogin=prohibit-password',
        # Emulated processors take their time.
        '-o', 'LoginGraceTime=600')


def link(name):
    """What of an interface is configured."""
    link, = json.loads(run('ip', '-json', 'address', 'show', name))
    return {'up': 'UP' in link['flags'], 'master': link.get('master'),
            'addresses': sorted(
                address['local'] for address in link['addr_info']
                if address['scope'] == 'global')}


def pings(vrf, address):
    """Whether it answers within a VRF."""
    return subprocess.run(
        ['ping', '-c', '1', '-W', '20', '-I', vrf, address], check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL).returncode == 0


def look():
    """All that leases change, and who hears whom."""
    beds = {}
    for name in vrfs():
        # By BGP, which takes some seconds.
        learned = wait(lambda name=name: answer(VIP, name) is not None)
        beds[name] = {
            'learned': learned,
            'pings 198.18.1.2': pings(name, '198.18.1.2'),
            'pings 198.18.0.2': pings(name, '198.18.0.2'),
            'at 198.18.1.2': answer('198.18.1.2', name),
            'at the VIP': answer(VIP, name),
            'learned what is foreign':
                FOREIGN in vtysh('show ip route vrf', name)}
    return {
        'beds': beds,
        'm3 from': {name: answer('198.18.0.2', namespace=name)
                    for name in ('m1', 'm2')},
        'the VIP from m3': answer(VIP, namespace='m3'),
        'links': {name: link(name) for name in ('swp1', 'swp2', 'swp3')},
        'frr': vtysh('show running-config'),
    }


def main(words):
    if words == ['look']:
        print(json.dumps(look()), flush=True)
        return
    folder = pathlib.Path(words[1])
    install(folder)
    make_machines()
    start_sshd(folder)
    print('SERVES', flush=True)
    threading.Event().wait()


if __name__ == '__main__':
    main(sys.argv[1:])
