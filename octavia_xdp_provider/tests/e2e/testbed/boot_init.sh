#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: Apache-2.0
# The first process of a machine that booted for a lease: fetches its root as
# the kernel's parameters say, and says what it is.
export PATH=/bin
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
while read -r module; do
	insmod "/modules/$module"
done < /modules/order
parameter() {
	sed -n "s/.*\\b$1=\\([^ ]*\\).*/\\1/p" /proc/cmdline
}
ip link set eth0 up
udhcpc -i eth0 -n -q -t 20 -s /dhcp
mkdir /root
fetch() {
	case $1 in
	tftp://*)
		address=${1#tftp://}
		tftp -g -l "$2" -r "${address#*/}" "${address%%/*}"
		;;
	*) wget -O "$2" "$1" ;;
	esac
}
if fetch "$(parameter fetch)" /root.cpio; then
	(cd /root && cpio -i -d < /root.cpio)
fi
echo "BOOTED kernel=$(uname -r) lease=$(parameter octavia_xdp_lease) root=$(cat /root/marker)"
poweroff -f
