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

# Every program says what it issued; the records must be as many. Prefix lines by
# pid are those of other processes.
same() {
	out=$(CUDA_INJECTION64_PATH=$build/check/libclient.so timeout 120 "$build/$@" 2>&1)
	rc=$?
	issued=$(echo "$out" | sed -n 's/^counts kernels=/kernels=/p')
	sum=$(echo "$out" | sed -n 's/^records kernels=\([0-9]*\) copies=\([0-9]*\) sets=\([0-9]*\) .*dropped=0 .*/\1 \2 \3/p' |
		awk '{ k += $1; c += $2; s += $3 } END { print "kernels=" k " copies=" c " sets=" s }')
	if [ $rc -ne 0 ] || [ "$issued" != "$sum" ] || echo "$out" | grep -q FAIL; then
		fail "$* (mode $CHECK_MODE): exit $rc, issued $issued, recorded $sum
$out"
	fi
}

CHECK_MODE=all
for program in static-stripped bundled late tworuntimes 'threads -t 8 -n 200' forkexec 'workers -w 3' forkafter \
	'forkafter _exit' 'graphs -n 7' profiler nvtx 'many --no-errors' 'longrun 0.05'; do
	# shellcheck disable=SC2086
	same bin/$program
done
# The client says nothing of a program that another one replaces. The last one has all its records.
expect '^records kernels=100 copies=1 sets=1 .* running=0 dropped=0 ' bin/replaced
# It frees memory of no pool in stream order, which the records of allocations do not survive.
CHECK_NO_MEMORY=1 same bin/functions
CHECK_NO_MEMORY=1 expect ' memory=0 pools=4 ' bin/functions
CUDA_INJECTION64_PATH=$build/check/libclient.so "$build/bin/functions" >/dev/null 2>&1 && fail "functions survives the records of allocations"
expect ' memory=8 pools=0 ' bin/many
# Nothing is waited for at these ends: what has not begun is told as well.
for mode in return exit thread-exit fork-child device-reset; do
	same bin/exits $mode -n 700
done
expect 'devices=1 contexts=1 streams=4 ' bin/many
# NVTX: what the program says it made, and what came.
NVTX_INJECTION64_PATH=$build/lib/libcupti.so.13 expect '^events ranges=34 marks=11 open=1 data=12 names=4 ' bin/nvtx
expect '^nvtx ranges=34 marks=11 names=4 open=1$' bin/nvtx
# Another client takes the buffers over: from then on everything is its.
expect '^kineto kernels=' bin/kineto -n 100
# A release that loses every hundredth record says so.
CUDASIM_CUPTI_DROP_EVERY=100 expect '^records kernels=990 .* dropped=10 ' bin/launchloop -n 1000
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
# What the tables list is exported.
for library in libcuda.so.1 libcudart.so.13; do
	table=$([ $library = libcuda.so.1 ] && echo driver || echo runtime)
	sed -n 's/^[DR](\([A-Za-z0-9_]*\),.*/\1/p' "api/$table.def" | sort >"$build/check/listed"
	nm -D "$build/lib/$library" | awk '$2 == "T" { sub("@.*", "", $3); print $3 }' | sort >"$build/check/exported"
	missing=$(comm -23 "$build/check/listed" "$build/check/exported" | tr '\n' ' ')
	[ -z "$missing" ] || fail "$library lacks $missing"
done
# The other releases lack what they are to lack.
nm -D "$build/lib-lacking/libcupti.so.13" | grep -q cuptiActivityEnableDriverApi && fail "lib-lacking has all"
nm -D "$build/lib-broken/libcupti.so.13" | grep -q cuptiActivityGetNextRecord && fail "lib-broken has all"
[ -e "$build/lib-twelve/libcupti.so.12" ] || fail "no lib-twelve"

[ "$(nm -D "$build/lib/libcuda.so.1" | grep ' T ' | grep -vc ' cu')" -eq 0 ] || fail "libcuda.so.1 exports more than the driver API"

[ $failed -eq 0 ] && echo "sim: ok"
exit $failed
