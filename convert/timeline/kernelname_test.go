package timeline

import "testing"

func TestNamesOfLibraries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ mangled, library, operation, variant string }{
		{"_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE", NCCLLibrary, "AllReduce", "Sum_bf16_RING_LL"},
		{"_Z22ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE", NCCLLibrary, "SendRecv", ""},
		{"ncclKernel_AllReduce_RING_LL_Sum_float", NCCLLibrary, "AllReduce", "RING_LL_Sum_float"},
		{"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", NCCLLibrary, "SendRecv", ""},
		{"_Z9ncclOtherv", NCCLLibrary, "", ""},
		{"_ZN8nvshmemi7barrierEv", NVSHMEMLibrary, "", ""},
		{"_ZL24nvshmem_barrier_kernel_xi", NVSHMEMLibrary, "", ""},
		{"void nvshmem_barrier<int>(int)", NVSHMEMLibrary, "", ""},
		{"nvshmem_quiet", NVSHMEMLibrary, "", ""},
		{"_Z4gemmPfS_S_i", "", "", ""},
		{"_Z99nccl", NCCLLibrary, "", ""}, // shorter than it says
		{"_Z", "", "", ""}, {"", "", "", ""},
	} {
		operation, variant := NCCLKernel(c.mangled)
		if library := CommunicationLibrary(c.mangled); library != c.library || operation != c.operation || variant != c.variant {
			t.Errorf("%q is of %q, and does %q, %q", c.mangled, library, operation, variant)
		}
	}
}
