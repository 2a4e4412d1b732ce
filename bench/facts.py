# SPDX-License-Identifier: Apache-2.0
"""Prints facts about a machine that can change results, as JSON.

Its source is piped to python3 on the machine, so it needs only the standard
library of Python 3.9 or later. Argument: "facts" for static ones, "load" for
the present load. Unknown values are null.
"""

import glob
import hashlib
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import time

CPUS = '/sys/devices/system/cpu'
# Seconds for which the load is sampled.
SAMPLE_S = 0.5
# Packages whose version affects results.
PACKAGES = (
    'bird2', 'clang-19', 'ethtool', 'exabgp', 'frr', 'haproxy', 'iperf3',
    'iproute2', 'ipvsadm', 'libbpf1', 'nghttp2-client', 'nginx',
    'nginx-light', 'octavia-xdp-hc', 'octavia-xdp-member', 'octavia-xdp-node',
    'openvswitch-switch', 'wrk')

PARAMETERS = re.compile(
    r'(mitigations|spectre|spec_|l1tf|mds|tsx|retbleed|nopti|pti|nosmt|isolcpus'
    r'|nohz|rcu_|irqaffinity|idle|processor\.|intel_|amd_|iommu|swiotlb|nomodule'
    r'|hugepage|default_hugepagesz|transparent_hugepage|psi|clocksource|tsc'
    r'|no_timer_check|preempt|threadirqs|skew_tick|nmi_watchdog|audit|numa'
    r'|cpuidle|haltpoll|maxcpus|nr_cpus|init_on_|page_)')


def facts():
    """Return what does not change during a run."""
    cpu = _cpu()
    return {
        'kernel': {
            'release': platform.release(),
            'version': platform.version(),
            **_parameters(_read('/proc/cmdline') or ''),
            'bpf_jit': _read('/proc/sys/net/core/bpf_jit_enable'),
            'bpf_jit_harden': _read('/proc/sys/net/core/bpf_jit_harden'),
            'bpf_stats': _read('/proc/sys/kernel/bpf_stats_enabled'),
            'clocksource': _read('/sys/devices/system/clocksource/'
                                 'clocksource0/current_clocksource'),
        },
        'cpu': {
            **cpu,
            'online': _read(f'{CPUS}/online'),
            'isolated': _read(f'{CPUS}/isolated'),
            'allowed': len(os.sched_getaffinity(0)),
            'quota': _read('/sys/fs/cgroup/cpu.max'),
            'smt': _read(f'{CPUS}/smt/control'),
            'governor': _read(f'{CPUS}/cpu0/cpufreq/scaling_governor'),
            'driver': _read(f'{CPUS}/cpu0/cpufreq/scaling_driver'),
            'turbo': _turbo(),
            'mitigations': {
                os.path.basename(path): _read(path)
                for path in sorted(glob.glob(f'{CPUS}/vulnerabilities/*'))},
        },
        'memory': _memory(),
        'hypervisor': _hypervisor(cpu['flags']),
        'versions': {'python': platform.python_version(), **_packages()},
    }


def load():
    """Return the present load and clocks."""
    before = _ticks()
    time.sleep(SAMPLE_S)
    after = _ticks()
    spent = {name: after[name] - before[name] for name in after}
    everything = sum(spent.values()) or 1
    return {
        'average': list(os.getloadavg()),
        # Shares of all CPUs' time.
        'busy': 1 - (spent['idle'] + spent['iowait']) / everything,
        'steal': spent['steal'] / everything,
        'ticks': after,
        'pressure': {name: _pressure(name)
                     for name in ('cpu', 'memory', 'io')},
        'clocks': {
            'realtime': time.clock_gettime(time.CLOCK_REALTIME),
            'monotonic': time.clock_gettime(time.CLOCK_MONOTONIC),
            'raw': time.clock_gettime(time.CLOCK_MONOTONIC_RAW),
            'boottime': time.clock_gettime(time.CLOCK_BOOTTIME),
        },
    }


def _parameters(line):
    """Return parameters of the command line that are known to matter, and a
    digest of all, as others may be confidential."""
    return {
        'parameters': sorted(word for word in line.split()
                             if PARAMETERS.match(word)),
        'command_line': hashlib.sha256(line.encode()).hexdigest()[:16],
    }


def _cpu():
    text = _read('/proc/cpuinfo') or ''
    names = {}
    for line in text.split('\n\n')[0].splitlines():
        name, _, value = line.partition(':')
        names[name.strip()] = value.strip()
    flags = names.get('flags') or names.get('Features') or ''
    return {
        'model': names.get('model name') or platform.machine(),
        'stepping': names.get('stepping'),
        'microcode': names.get('microcode'),
        'count': len(re.findall(r'^processor\s*:', text, re.M)),
        'flags': sorted(flags.split()),
    }


def _turbo():
    """Whether clocks go above the nominal one: True, False or unknown."""
    none = _read(f'{CPUS}/intel_pstate/no_turbo')
    if none is not None:
        return none == '0'
    boost = _read(f'{CPUS}/cpufreq/boost')
    return None if boost is None else boost == '1'


def _memory():
    lines = dict(line.split(':', 1) for line in
                 (_read('/proc/meminfo') or '').splitlines() if ':' in line)

    def number(name):
        return int(lines[name].split()[0]) if name in lines else None
    return {
        'total_kib': number('MemTotal'),
        'huge_pages': number('HugePages_Total'),
        'huge_page_kib': number('Hugepagesize'),
        'transparent': _read('/sys/kernel/mm/transparent_hugepage/enabled'),
        'numa_nodes': len(glob.glob('/sys/devices/system/node/node[0-9]*')),
    }


def _hypervisor(flags):
    product = ' '.join(filter(None, (
        _read('/sys/class/dmi/id/sys_vendor'),
        _read('/sys/class/dmi/id/product_name'))))
    return {
        'present': 'hypervisor' in flags,
        'type': _read('/sys/hypervisor/type'),
        'product': product or None,
    }


def _packages():
    try:
        done = subprocess.run(
            ['dpkg-query', '--show', '--showformat',
             '${db:Status-Status} ${Package} ${Version}\n', *PACKAGES],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            check=False)
    except OSError:
        return {}
    words = (line.split() for line in done.stdout.splitlines())
    return {fields[1]: fields[2] for fields in words
            if len(fields) == 3 and fields[0] == 'installed'}


def _ticks():
    """Return CPU ticks by state, proc_stat(5); user and nice have guests'."""
    names = ('user', 'nice', 'system', 'idle', 'iowait', 'irq', 'softirq',
             'steal')
    with open('/proc/stat') as file:
        values = file.readline().split()[1:1 + len(names)]
    return {name: int(values[index]) for index, name in enumerate(names)}


def _pressure(name):
    """Return pressure stall information: microseconds since boot in which some
    task had to wait, and its share of the last ten seconds in per cent."""
    match = re.search(r'^some avg10=(\S+).* total=(\d+)',
                      _read(f'/proc/pressure/{name}') or '', re.M)
    return match and {'avg10': float(match[1]), 'total_us': int(match[2])}


def _read(path):
    try:
        return pathlib.Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None


if __name__ == '__main__':
    json.dump({'facts': facts, 'load': load}[sys.argv[1]](), sys.stdout)
