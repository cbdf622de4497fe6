#!/bin/sh
# Runs the simulation's programs under the CUPTI client and holds the records
# against what each program says it issued. Arguments: the build folder, and
# launches for the loops.
set -u
build=$1
launches=${2:-20000}
failed=0

fail() {
	echo "FAIL: $*"
	failed=1
}

# expect PATTERN PROGRAM [ARG...]: exit 0 and a line that matches.
expect() {
	pattern=$1
	shift
	out=$(CUDA_INJECTION64_PATH=$build/check/libclient.so timeout 120 "$build/$@" 2>&1)
	rc=$?
	if [ $rc -ne 0 ]; then
		fail "$* (mode ${CHECK_MODE:-selected}): exit $rc
$out"
	elif ! echo "$out" | grep -q "$pattern"; then
		fail "$* (mode ${CHECK_MODE:-selected}): no line matches $pattern
$out"
	fi
}

# With all records on; with the calls that make GPU work, of both domains; and of
# the driver alone, whose records then appear inside the runtime's calls.
for CHECK_MODE in all selected driver; do
	export CHECK_MODE
	expect 'records kernels=1 copies=3 sets=0 .* running=0 dropped=0 ' bin/vectoradd
	expect 'records kernels=1 copies=3 sets=0 .* running=0 dropped=0 ' bin/vectoradd-static -n 1000
	expect 'records kernels=20 copies=2 sets=1 .* running=0 dropped=0 ' bin/driveronly
	expect 'records kernels=111 copies=43 sets=61 .* running=0 dropped=0 ' bin/many
	expect "records kernels=$launches .* running=0 dropped=0 " bin/launchloop -n "$launches" -t 4 -s 8 -k 16
	expect "records kernels=$launches .* running=0 dropped=0 " bin/launchloop-static -n "$launches" -t 3 -s 2 -k 64
	CHECK_BUFFER=4096 expect "records kernels=$launches .* running=0 dropped=0 " bin/launchloop -n "$launches" -t 2 -s 4 -k 4
done
CHECK_MODE=all
expect 'devices=1 contexts=1 streams=4 ' bin/many
CHECK_MODE=selected
expect 'records kernels=1 .* running=1 dropped=0' check/edge running
expect 'records kernels=0 copies=0 ' check/edge forked
CHECK_CALLBACKS=1 expect 'callbacks=1000$' bin/launchloop -n 1000
# 10 launches: a kernel and an API record each, and nowhere to put them.
CHECK_REFUSE=1 expect 'records kernels=0 copies=0 .* dropped=20 ' bin/launchloop -n 10

# Without a client, and without CUDA.
"$build/bin/many" | grep -q '^counts kernels=111 copies=43 sets=61$' || fail "many without a client"
"$build/bin/nocuda" 7 >/dev/null
[ $? -eq 7 ] || fail "nocuda does not exit as it is told"

# A library that cannot be loaded changes nothing.
CUDA_INJECTION64_PATH=/nonexistent.so "$build/bin/vectoradd" >/dev/null || fail "vectoradd with a missing library"

# Static programs have the runtime's functions as local symbols of their own.
nm "$build/bin/vectoradd-static" | grep -q ' t cudaLaunchKernel$' || fail "no local cudaLaunchKernel in vectoradd-static"
nm "$build/bin/vectoradd-static" | grep -q ' T cuda' && fail "global runtime symbols in vectoradd-static"
[ "$(nm -D "$build/lib/libcuda.so.1" | grep ' T ' | grep -vc ' cu')" -eq 0 ] || fail "libcuda.so.1 exports more than the driver API"

[ $failed -eq 0 ] && echo "sim: ok"
exit $failed
