// Package cudaerror names the codes that CUDA's functions return. Input: a library ("runtime" or
// "driver") and a code. Output: the code's name in CUDA 11 to 13. It depends on nothing.
package cudaerror

import "strconv"

// Name names a returned code: of the runtime a cudaError_t, "cudaErrorMemoryAllocation", of any
// other library a CUresult, "CUDA_ERROR_OUT_OF_MEMORY". An unknown code is "CUresult 1234".
func Name(library string, code int32) string {
	names, kind := driverErrors, "CUresult "
	if library == "runtime" {
		names, kind = runtimeErrors, "cudaError_t "
	}
	if name, ok := names[code]; ok {
		return name
	}
	return kind + strconv.Itoa(int(code))
}

// OfFailure is the name of a code, and "" for success.
func OfFailure(library string, code int32) string {
	if code == 0 {
		return ""
	}
	return Name(library, code)
}

// Codes of both libraries that are not a failure, or one that nobody can repair.
const (
	NotReady      = 600 // cudaErrorNotReady, CUDA_ERROR_NOT_READY: a query found unfinished work
	Deinitialized = 4   // cudaErrorCudartUnloading, CUDA_ERROR_DEINITIALIZED: a destructor ran after CUDA had shut down
)
