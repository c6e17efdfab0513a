#!/bin/sh
# Process 1 of a node, run by unshare in namespaces of its own (mount, network, process, host name). It gives the node what differs from
# the host, then becomes the program that only waits and reaps. All mounts live in this namespace: they end with the node.
#   node-boot.sh NAME DISK DISK_IN_NODE RESOLV_CONF WAIT_PROGRAM KEEP…
# KEEP: folders that the node sees as the host does, wherever they lie.
set -eu
name=$1 disk=$2 disk_in_node=$3 resolv_conf=$4 wait_program=$5
shift 5

# Kubelet and runc need shared mounts; what is shared here is a group of this namespace, not the host's.
mount --make-rshared /
mount -t proc proc /proc
hostname "$name"

# Sockets, locks, Pod network namespaces: gone after a power loss, as on a machine.
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/netns /run/lock
# Kubelet and network plugins have places here that cannot be chosen. Empty ones, so that nodes neither share them nor leave them on the host.
number=0
for folder in "$@"; do
  number=$((number + 1))
  mkdir -p "/run/keep/$number"
  mount --bind "$folder" "/run/keep/$number"
done
mount -t tmpfs -o mode=755 tmpfs /var/lib
mount -t tmpfs -o mode=755 tmpfs /var/log
number=0
for folder in "$@"; do
  number=$((number + 1))
  mkdir -p "$folder"
  mount --bind "/run/keep/$number" "$folder"
done
mount --bind "$disk" "$disk_in_node"

# The host's resolver may be unreachable from here, and looking up a registry would hang instead of failing.
resolved=$(readlink -m /etc/resolv.conf)
mkdir -p "$(dirname "$resolved")"
[ -e "$resolved" ] || : >"$resolved"
mount --bind "$resolv_conf" "$resolved"

echo 1 >/proc/sys/net/ipv4/ip_forward
# Services must also work between two Pods of one node, whose packets only cross the node's own bridge.
[ ! -e /proc/sys/net/bridge/bridge-nf-call-iptables ] || echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables
exec "$wait_program"
