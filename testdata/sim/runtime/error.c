#include "internal.h"

static const struct {
	int code;
	const char *name, *text;
} errors[] = {
	{0, "cudaSuccess", "no error"},
	{1, "cudaErrorInvalidValue", "invalid argument"},
	{2, "cudaErrorMemoryAllocation", "out of memory"},
	{3, "cudaErrorInitializationError", "initialization error"},
	{13, "cudaErrorInvalidSymbol", "invalid device symbol"},
	{21, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
	{35, "cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version"},
	{98, "cudaErrorInvalidDeviceFunction", "invalid device function"},
	{100, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
	{101, "cudaErrorInvalidDevice", "invalid device ordinal"},
	{200, "cudaErrorInvalidKernelImage", "device kernel image is invalid"},
	{201, "cudaErrorDeviceUninitialized", "invalid device context"},
	{400, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
	{401, "cudaErrorIllegalState", "the operation cannot be performed in the present state"},
	{500, "cudaErrorSymbolNotFound", "named symbol not found"},
	{600, "cudaErrorNotReady", "device not ready"},
	{719, "cudaErrorLaunchFailure", "unspecified launch failure"},
	{701, "cudaErrorLaunchOutOfResources", "too many resources requested for launch"},
	{301, "cudaErrorFileNotFound", "file not found"},
	{704, "cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
	{705, "cudaErrorPeerAccessNotEnabled", "peer access has not been enabled"},
	{712, "cudaErrorHostMemoryAlreadyRegistered", "part or all of the requested memory range is already mapped"},
	{713, "cudaErrorHostMemoryNotRegistered", "pointer does not correspond to a registered memory region"},
	{801, "cudaErrorNotSupported", "operation not supported"},
	{910, "cudaErrorGraphExecUpdateFailure",
	 "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update"},
	{900, "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
};

SIM_EXPORT const char *cudaGetErrorName(cudaError_t error)
{
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].code == error)
			return errors[i].name;
	return "unrecognized error code";
}

SIM_EXPORT const char *cudaGetErrorString(cudaError_t error)
{
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].code == error)
			return errors[i].text;
	return "unrecognized error code";
}
