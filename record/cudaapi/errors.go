package cudaapi

import (
	"strconv"
)

// ErrorName returns the name of a returned code in CUDA 11 to 13: of the runtime a cudaError_t,
// "cudaErrorMemoryAllocation", of any other library a CUresult, "CUDA_ERROR_OUT_OF_MEMORY". An unknown code is
// "CUresult 1234".
func ErrorName(library string, code int32) string {
	names, kind := driverErrors, "CUresult "
	if library == "runtime" {
		names, kind = runtimeErrors, "cudaError_t "
	}
	if name, ok := names[code]; ok {
		return name
	}
	return kind + strconv.Itoa(int(code))
}

// FailureName returns the name of a code, and "" for success.
func FailureName(library string, code int32) string {
	if code == 0 {
		return ""
	}
	return ErrorName(library, code)
}

// Codes of both libraries that are not a failure, or one that nobody can repair.
const (
	ErrorNotReady = 600 // cudaErrorNotReady, CUDA_ERROR_NOT_READY: a query found unfinished work
	// cudaErrorCudartUnloading, CUDA_ERROR_DEINITIALIZED: a destructor ran after CUDA had shut down
	ErrorDeinitialized = 4

	ErrorPeerAccessAlreadyEnabled    = 704
	ErrorHostMemoryAlreadyRegistered = 712
	ErrorNoBinaryForGPU              = 209
)

// ErrorMeaning returns the meaning of a code in a few words, "" for success and for a code that hardly
// anybody meets. Both libraries number these errors alike.
func ErrorMeaning(code int32) string { return errorMeanings[code] }

var errorMeanings = map[int32]string{
	1:   "an argument is not valid",
	2:   "the GPU has not enough free memory",
	3:   "CUDA is not initialized",
	4:   "CUDA is shutting down",
	9:   "the grid or the block is empty, or larger than the GPU allows",
	34:  "a stub library was loaded in place of the driver",
	35:  "the driver is too old for this CUDA runtime",
	36:  "the driver does not support this call",
	46:  "all GPUs are busy or not available",
	98:  "the kernel's function is unknown, or was built for another GPU",
	100: "no GPU was found",
	101: "there is no GPU with this number",
	200: "the image with the GPU code is not valid",
	201: "no context is current, or the context is not valid",
	209: "the program has no code for this GPU",
	214: "the GPU's memory had an error that ECC could not correct",
	216: "another thread uses the GPU exclusively",
	217: "these GPUs cannot access each other's memory",
	218: "PTX code could not be compiled",
	220: "NVLink had an error that could not be corrected",
	222: "PTX code was made by a newer toolchain than the driver knows",
	301: "a file was not found",
	302: "a symbol of a shared library was not found",
	304: "a call of the operating system failed",
	400: "the handle of a stream, an event or another object is not valid",
	500: "the named function or variable was not found",
	600: "the work has not finished yet",
	700: "a kernel accessed memory that is not allocated; the context is unusable from then on",
	701: "the launch needs more registers or shared memory than a multiprocessor has",
	702: "a kernel ran longer than the GPU's time limit",
	704: "access to the other GPU is enabled already",
	705: "access to the other GPU is not enabled",
	709: "the context was destroyed",
	710: "an assertion in a kernel failed",
	714: "a kernel's stack overflowed, or is damaged",
	715: "a kernel ran an instruction that is not valid",
	716: "a kernel accessed a misaligned address",
	717: "a kernel used an instruction on a kind of memory that does not support it",
	718: "a kernel's program counter is not valid",
	719: "a kernel failed; often it accessed shared memory that it does not have",
	720: "a cooperative launch has more blocks than fit on the GPU at once",
	800: "the operation is not permitted",
	801: "the operation is not supported on this system or GPU",
	802: "the system is not ready yet: the fabric manager may not run",
	803: "the driver and the CUDA libraries do not belong together",
	900: "the operation is not permitted while a stream is captured",
	901: "an earlier error has ended the capture",
	906: "the legacy default stream would wait for a stream that is captured",
	908: "another thread may not end this capture",
	999: "an unknown error",
}
