package cudaapi

import "testing"

func TestRuntimeCallbacks(t *testing.T) {
	for id, want := range map[uint32]string{
		0: "", 1: "cudaDriverGetVersion", 13: "cudaLaunch", 211: "cudaLaunchKernel", 214: "cudaLaunchKernel_ptsz",
		522: "cudaDeviceGetP2PAtomicCapabilities", 523: "", 1 << 31: "",
	} {
		if got := RuntimeCallback(id); got != want {
			t.Errorf("id %d is %q, want %q", id, got, want)
		}
	}
	for name, want := range map[string]bool{
		"cudaMemcpy_ptds": true, "cudaLaunchKernel": true, "cudaLaunch_kernel": false, "": false, "cuLaunchKernel": false,
	} {
		if IsRuntimeName(name) != want {
			t.Errorf("%q is a name of the runtime: %v", name, !want)
		}
	}
}
