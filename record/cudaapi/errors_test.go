package cudaapi

import "testing"

func TestErrorName(t *testing.T) {
	for _, c := range []struct {
		library string
		code    int32
		want    string
	}{
		{"driver", 0, "CUDA_SUCCESS"},
		{"driver", 2, "CUDA_ERROR_OUT_OF_MEMORY"},
		{"driver", 700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
		{"driver", 999, "CUDA_ERROR_UNKNOWN"},
		{"driver", 35, "CUresult 35"},
		{"driver", -1, "CUresult -1"},
		{"runtime", 0, "cudaSuccess"},
		{"runtime", 2, "cudaErrorMemoryAllocation"},
		{"runtime", 35, "cudaErrorInsufficientDriver"},
		{"runtime", 46, "cudaErrorDevicesUnavailable"},
		{"runtime", 98, "cudaErrorInvalidDeviceFunction"},
		{"runtime", 226, "cudaErrorContained"},
		{"runtime", 719, "cudaErrorLaunchFailure"},
		{"runtime", 910, "cudaErrorGraphExecUpdateFailure"},
		{"runtime", 11, "cudaError_t 11"},
	} {
		if got := ErrorName(c.library, c.code); got != c.want {
			t.Errorf("%s %d: %s, want %s", c.library, c.code, got, c.want)
		}
	}
}

func TestFailureName(t *testing.T) {
	if got := FailureName("driver", 0) + FailureName("runtime", 0); got != "" {
		t.Errorf("success is called %s", got)
	}
	if got := FailureName("runtime", 2); got != "cudaErrorMemoryAllocation" {
		t.Error(got)
	}
}
