package cudaapi

import "strconv"

// ErrorName names a returned code: a CUresult of the driver, "CUDA_ERROR_OUT_OF_MEMORY",
// or a cudaError_t of the runtime, "cudaErrorMemoryAllocation". Codes are those of
// CUDA 11 to 13; one that has no name is given as "CUresult 1234".
func ErrorName(lib Library, code int32) string {
	names, kind := driverErrors, "CUresult "
	if lib == Runtime {
		names, kind = runtimeErrors, "cudaError_t "
	}
	if name, ok := names[code]; ok {
		return name
	}
	return kind + strconv.Itoa(int(code))
}
