#!/bin/sh
# What a new user does, in a Debian that has Python and nothing else: installs the wheel without a network, records the
# demo program of the simulated CUDA stack, and reads the first finding. Needs root, debootstrap and, for Debian's
# packages, a network; takes two minutes.
# usage: newuser.sh RELEASE SIMULATED-STACK ROOT
set -eu
release=$1 sim=$2 root=$3
debootstrap --variant=minbase --include=python3,python3-venv stable "$root" ${MIRROR:+"$MIRROR"} >"$root.log" 2>&1 || {
	tail -n 3 "$root.log" >&2
	exit 1
}
mkdir -p "$root/home/new"
cp "$release"/cudatrace-*_x86_64.whl "$root/home/new"
cp -r "$sim" "$root/home/new/sim"
cat >"$root/home/new/go" <<'END'
set -eu
cd /home/new
python3 -m venv v
v/bin/pip install -q --no-index ./cudatrace-*_x86_64.whl
. v/bin/activate
export LD_LIBRARY_PATH=/home/new/sim/lib
cudatrace record -o demo sim/bin/demo
cudatrace stats demo.cudatrace --report findings --top 1
python3 -c 'import cudatrace; print(len(cudatrace.load("demo.cudatrace")["work"]["dur_ns"]), "pieces of GPU work")'
END
env -u LD_LIBRARY_PATH PATH=/usr/sbin:/usr/bin:/sbin:/bin unshare -m -n -p -f sh -c '
	mount -t proc proc "$0/proc" && mount -t sysfs -o ro sysfs "$0/sys" && mount -t tmpfs tmpfs "$0/dev/shm" && exec chroot "$0" sh /home/new/go' "$root"
