package collective

import "strings"

// A Kind is what the name of a kernel says.
type Kind uint8

// The kinds.
const (
	Other  Kind = iota // no kernel of NCCL, or one that some ranks alone run: send and receive
	Counts             // all ranks of the communicator run it
	Waits              // and none of them ends it before the last one has started it
)

// A Name is what a stream needs to know of the name of a kernel.
type Name struct {
	Kind Kind
	hash uint64
}

// NameOf reads a mangled name.
func NameOf(mangled string) (n Name) {
	if n.Kind = kindOf(mangled); n.Kind != Other {
		n.hash = hashOf(mangled)
	}
	return n
}

// waiting are the collectives that end nowhere before all ranks have entered them. A broadcast and a reduction may: the
// root of a broadcast waits for nobody.
var waiting = []string{"AllReduce", "AllGather", "ReduceScatter", "AlltoAll", "AllToAll"}

// kindOf is the kind of a kernel, by its mangled name: "_Z31ncclDevKernel_AllReduce_Sum_f32_RING_LL24...", or
// "ncclKernel_AllReduce_RING_LL_Sum_float" of older versions.
func kindOf(mangled string) Kind {
	operation := operationOf(mangled)
	if operation == "" || strings.HasPrefix(operation, "SendRecv") {
		return Other
	}
	for _, w := range waiting {
		if strings.HasPrefix(operation, w) {
			return Waits
		}
	}
	return Counts
}

// Operation is the operation of a kernel of NCCL, by its mangled name: "AllReduce"; "" for other kernels.
func Operation(mangled string) string {
	operation := operationOf(mangled)
	if end := strings.IndexFunc(operation, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') }); end >= 0 {
		return operation[:end]
	}
	return operation
}

// operationOf is the name of a kernel of NCCL from its operation on, "" for other kernels.
func operationOf(mangled string) string {
	name := strings.TrimLeft(strings.TrimPrefix(mangled, "_Z"), "0123456789")
	if !strings.HasPrefix(name, "nccl") {
		return ""
	}
	_, operation, _ := strings.Cut(name, "Kernel_")
	return operation
}
