package collective

import (
	"slices"
	"strings"
)

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
	if operation == "" || strings.HasPrefix(operation, SendRecv) {
		return Other
	}
	for _, w := range waiting {
		if strings.HasPrefix(operation, w) {
			return Waits
		}
	}
	return Counts
}

// SendRecv is the operation of kernels that send and receive. Some ranks alone may run one, with different messages.
const SendRecv = "SendRecv"

// bySends are the calls that NCCL carries out by sends and receives: what they do is their name.
var bySends = []string{"AlltoAll", "Gather", "Scatter"}

// OperationOf is the operation of a kernel of NCCL that a call launched, "" for other kernels and "ncclAlltoAll" and so on for the call, "" where
// that is not known: that of a kernel that sends and receives is that of the call.
func OperationOf(mangled, call string) string {
	operation := operation(mangled)
	if name := strings.TrimPrefix(call, "nccl"); operation == SendRecv && slices.Contains(bySends, name) {
		return name
	}
	return operation
}

// Sends reports whether a kernel of NCCL sends and receives, by its mangled name.
func Sends(mangled string) bool { return operation(mangled) == SendRecv }

// operation is the operation of a kernel of NCCL, by its mangled name: "AllReduce"; "" for other kernels.
func operation(mangled string) string {
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
