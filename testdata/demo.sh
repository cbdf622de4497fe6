#!/bin/sh
# Records a sample program: on the GPU if this machine has a GPU and nvcc, else on
# the simulated CUDA stack.
set -eu
cd "$(dirname "$0")/.."
if [ -e /dev/nvidiactl ] && command -v nvcc >/dev/null; then
	mkdir -p build/gpu
	nvcc -O2 -o build/gpu/demo testdata/gpu/demo.cu
	echo "demo: on the GPU: testdata/gpu/demo.cu"
	exec bin/cudatrace record -o demo build/gpu/demo
fi
echo "demo: no GPU (or no nvcc) here: on the simulated CUDA stack"
exec bin/cudatrace record -o demo build/sim/bin/demo
