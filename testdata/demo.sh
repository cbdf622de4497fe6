#!/bin/sh
# Records a sample program: on the GPU if this machine has a GPU and nvcc, else on
# the simulated CUDA stack.
set -eu
cd "$(dirname "$0")/.."
if [ -e /dev/nvidiactl ] && command -v nvcc >/dev/null; then
	mkdir -p build/gpu
	nvcc -o build/gpu/streams testdata/gpu/streams.cu
	echo "demo: on the GPU: testdata/gpu/streams.cu"
	exec bin/cudatrace record -o demo build/gpu/streams
fi
echo "demo: no GPU (or no nvcc) here: on the simulated CUDA stack"
exec bin/cudatrace record -o demo build/sim/bin/threads
