package cudaapi

import "strconv"

// ErrorName names a returned code: a CUresult of the driver, "CUDA_ERROR_OUT_OF_MEMORY", or a
// cudaError_t of the runtime, "cudaErrorMemoryAllocation". The names are those of CUDA 11 to
// 13. An unknown code is "CUresult 1234".
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

// ResultName names the code that a function of a library ("runtime" or "driver") returned; ""
// for success.
func ResultName(library string, code int32) string {
	switch {
	case code == 0:
		return ""
	case library == Runtime.String():
		return ErrorName(Runtime, code)
	}
	return ErrorName(Driver, code)
}

// Codes of both libraries that are not a failure, or one that nobody can repair.
const (
	NotReady      = 600 // cudaErrorNotReady, CUDA_ERROR_NOT_READY: a query found unfinished work
	Deinitialized = 4   // cudaErrorCudartUnloading, CUDA_ERROR_DEINITIALIZED: a destructor ran after CUDA had shut down
)
