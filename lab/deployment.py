# SPDX-License-Identifier: Apache-2.0
"""Start and stop a whole lab."""

import ctypes
import os
import pathlib

from lab import namespaces
from lab import parallel
from lab import paths
from lab import processes
from lab import progress
from lab.control import host as control
from lab.control import octavia
from lab.control import services
from lab.fabric import proxies as proxy_nodes
from lab.fabric import topology
from lab.ovn import fabric as ovn_fabric
from lab.ovn import host_agents

MNT_DETACH = 2


def up(lab, control_only=False, provider=octavia.XDP,
       provider_options=None, others=(), ovn=False, proxies=0,
       node_options=None):
    """Start a lab, after removing the remains of an earlier run.

    :param ovn: with hypervisors, for which Neutron runs ML2/OVN.
    :param proxies: number of proxy nodes; with some there is Barbican, in
        which tenants store certificates.
    :param node_options: options of all nodes: section → option → value.
    """
    if ovn and control_only:
        raise paths.LabError('hypervisors are behind the router, which a '
                             'control host alone does not have')
    if proxies and control_only:
        raise paths.LabError('proxy nodes are behind the router, which a '
                             'control host alone does not have')

    def make_fabric():
        topology.make(lab)
        proxy_nodes.make(lab, proxies)

    lb_node_options = proxy_nodes.NODE_OPTIONS if proxies else {}
    if ovn:
        lb_node_options = host_agents.NODE_OPTIONS
        provider_options = {**host_agents.CONTROLLER_OPTIONS,
                            **(provider_options or {})}

    def start():
        if control_only:
            control.up(lab, provider, provider_options, others, ovn)
            return
        control.up(lab, provider, provider_options, others, ovn,
                   with_barbican=bool(proxies), beside=make_fabric)
        topology.start(lab, {**lb_node_options, **(node_options or {})})
        proxy_nodes.start_all(lab, node_options)
        if ovn:
            ovn_fabric.up(lab)
    _start_from_scratch(lab, start)


def up_services(lab):
    """Start a lab with broker and database servers only."""
    _start_from_scratch(lab, lambda: services.up(lab))


def up_fabric(lab, make):
    """Start a lab without a control host; `make` creates its namespaces."""
    _start_from_scratch(lab, make)


def _start_from_scratch(lab, start):
    if os.geteuid() != 0:
        raise paths.LabError('network namespaces and BPF need root')
    with lab.lock():
        with progress.step(f'cleaning up lab {lab.name} ({lab.id})'):
            _clean(lab)
            lab.make_directories()
        try:
            start()
        except BaseException:
            with progress.step('removing what was started'):
                _clean(lab)
            raise


def down(lab):
    """Stop a lab and remove everything but its logs."""
    with lab.lock(), progress.step(f'stopping lab {lab.name} ({lab.id})'):
        processes.stop_all(lab)
        _clean(lab)


def _clean(lab):
    for process in processes.all_of(lab):
        if process.host is None:
            processes.stop(lab, process.name)
    hosts = namespaces.hosts(lab)
    if hosts:
        parallel.together(*(
            lambda host=host: namespaces.delete(lab, host)
            for host in hosts))
    proxy_nodes.remove_groups(lab)
    _unmount_below(lab.directory, lab.run_directory)
    lab.remove_directories()


def _unmount_below(*directories):
    libc = ctypes.CDLL(None, use_errno=True)
    mounts = pathlib.Path('/proc/self/mountinfo').read_text().splitlines()
    for line in reversed(mounts):
        target = line.split()[4].encode().decode('unicode_escape')
        if not any(pathlib.Path(target).is_relative_to(directory)
                   for directory in directories):
            continue
        if libc.umount2(os.fsencode(target), MNT_DETACH) == -1:
            raise paths.LabError(
                f'{target}: {os.strerror(ctypes.get_errno())}')
