#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A switch in network and mount namespaces of its own, which end with it: real
# FRR and real Ansible. ifreload is replaced, as it would need VRFs.
#
#   unshare --mount --net playbook_in_namespaces.sh FOLDER PYTHON
#
# FOLDER has an inventory; what the syncs say goes to standard output.
set -euo pipefail
folder=$1 python=$2

mount --make-rprivate /
layers=$folder/layers
mkdir "$layers"
mount -t tmpfs layers "$layers"
mkdir "$layers"/{upper,work,bin}
mount -t overlay etc -o \
    "lowerdir=/etc,upperdir=$layers/upper,workdir=$layers/work" /etc
mkdir -p /run/frr /etc/network/interfaces.d
mount -t tmpfs frr /run/frr
chown frr:frr /run/frr
ip link set lo up
printf 'frr defaults datacenter\n' > /etc/frr/frr.conf
chown frr:frr /etc/frr/frr.conf
printf '#!/bin/sh\necho "$@" >> %s/ifreload.log\n' "$folder" \
    > "$layers/bin/ifreload"
chmod 755 "$layers/bin/ifreload"
export PATH=$layers/bin:$PATH

end() {
    local file
    for file in /run/frr/*.pid; do
        kill "$(< "$file")"
    done
}
trap end EXIT
for daemon in zebra bgpd staticd; do
    "/usr/lib/frr/$daemon" --daemon -F datacenter -A 127.0.0.1 2>&1
done

bed() { "$python" -m testbed --folder="$folder" --owner=alice "$@"; }
sync_bed() { bed sync | sed "s/^/$1: /"; }

bed reserve lb1 --purpose playbook > "$folder/diff"
sync_bed first
sync_bed second
vtysh -c 'show running-config' > "$folder/leased.conf"
# As if the first one had been killed before its end.
rm /etc/frr/octavia-xdp-bench.applied
sync_bed interrupted
bed release 1 > "$folder/diff"
sync_bed released
vtysh -c 'show running-config' > "$folder/released.conf"
