#!/usr/bin/env bash
# PyTorch's operators with Debian's PyTorch, built for the CPU, on the simulated CUDA stack. Makes a root with Debian's release
# and python3-torch unless it is there (bookworm: PyTorch 1.13.1, 150 MB to fetch, 1.4 GB; trixie: 2.6.0), and runs check.py in it.
# Needs root, debootstrap, `make build sim`, some minutes. Usage: check.sh ROOT [RELEASE [MODE...]]
set -eu
here=$(cd "$(dirname "$0")" && pwd) root=$1 release=${2:-bookworm}
top=$here/../..
shift; shift || true
if [ ! -e "$root/done" ]; then
	debootstrap --variant=minbase "$release" "$root" ${MIRROR:+"$MIRROR"} >"$root.log" 2>&1
	cp /etc/apt/apt.conf.d/* "$root/etc/apt/apt.conf.d/"
	DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get install -y --no-install-recommends python3-torch >>"$root.log" 2>&1
	chroot "$root" apt-get clean
	touch "$root/done"
fi
rm -rf "$root/check"
mkdir "$root/check"
cp "$top/bin/cudatrace" "$here"/*.py "$root/check"
cp -r "$top/build/sim/lib" "$root/check/lib"
rm -f "$root/check/lib/libtorch_cpu.so" "$root/check/lib/libc10.so" # PyTorch's own
# mounts of our own namespace: they end with it
exec unshare --mount bash -c 'mount -t proc proc "$0/proc" && mount --rbind /sys "$0/sys" && mount --rbind /dev "$0/dev" &&
	exec chroot "$0" python3 /check/check.py /check/cudatrace /check/lib /check/out "$@"' "$root" "$@"
