package timeline

import (
	"strconv"
	"strings"
)

// The libraries whose kernels communicate.
const (
	NCCLLibrary    = "NCCL"
	NVSHMEMLibrary = "NVSHMEM"
)

// CommunicationLibrary is the library that a kernel communicates by, by its mangled name; "" for other kernels.
func CommunicationLibrary(mangled string) string {
	switch name, _ := identifier(mangled); {
	case strings.HasPrefix(name, "nccl"):
		return NCCLLibrary
	case strings.HasPrefix(name, "nvshmem"):
		return NVSHMEMLibrary
	}
	return ""
}

// NCCLKernel is what a kernel of NCCL does, by its mangled name: "AllReduce" and "Sum_f32_RING_LL" for
// "_Z31ncclDevKernel_AllReduce_Sum_f32_RING_LL24...", and likewise for the "ncclKernel_AllReduce_RING_LL_Sum_float" of
// older versions. Both are "" for other kernels.
func NCCLKernel(mangled string) (operation, variant string) {
	name, length := identifier(mangled)
	if !strings.HasPrefix(name, "nccl") {
		return "", ""
	}
	if n, err := strconv.Atoi(length); err == nil && n <= len(name) {
		name = name[:n]
	}
	_, does, _ := strings.Cut(name, "Kernel_")
	does, _, _ = strings.Cut(does, "(") // demangled
	operation, variant, _ = strings.Cut(does, "_")
	return operation, variant
}

// identifier is a mangled name from its first identifier on, whose length stands in front of it; a name of C, or one
// that is demangled, is itself.
func identifier(mangled string) (name, length string) {
	rest, is := strings.CutPrefix(mangled, "_Z")
	if !is {
		return strings.TrimPrefix(mangled, "void "), ""
	}
	rest = strings.TrimPrefix(strings.TrimPrefix(rest, "N"), "L") // in a namespace, static
	name = strings.TrimLeft(rest, "0123456789")
	return name, rest[:len(rest)-len(name)]
}
