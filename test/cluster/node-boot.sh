#!/bin/sh
# Process 1 of a node, run by unshare in namespaces of its own (mount, network, process, host name). It gives the node what differs from
# the host, then becomes the program that only waits and reaps. All mounts live in this namespace: they end with the node.
#   node-boot.sh NAME DISK DISK_IN_NODE RESOLV_CONF WAIT_PROGRAM
set -eu
name=$1 disk=$2 disk_in_node=$3 resolv_conf=$4 wait_program=$5

# Kubelet and runc need shared mounts; what is shared here is a group of this namespace, not the host's.
mount --make-rshared /
mount -t proc proc /proc
hostname "$name"
mount --bind "$disk" "$disk_in_node"
# Sockets, locks, Pod network namespaces: gone after a power loss, as on a machine.
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/netns /run/lock

# The host's resolver may be unreachable from here, and looking up a registry would hang instead of failing.
resolved=$(readlink -m /etc/resolv.conf)
mkdir -p "$(dirname "$resolved")"
[ -e "$resolved" ] || : >"$resolved"
mount --bind "$resolv_conf" "$resolved"

echo 1 >/proc/sys/net/ipv4/ip_forward
# Services must also work between two Pods of one node, whose packets only cross the node's own bridge.
[ ! -e /proc/sys/net/bridge/bridge-nf-call-iptables ] || echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables
exec "$wait_program"
