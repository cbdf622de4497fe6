package collective

import (
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
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

// kindOf is the kind of a kernel, by its mangled name.
func kindOf(mangled string) Kind {
	switch operation, _ := timeline.NCCLKernel(mangled); {
	case operation == "", operation == SendRecv:
		return Other
	case slices.ContainsFunc(waiting, func(w string) bool { return strings.HasPrefix(operation, w) }):
		return Waits
	}
	return Counts
}

// SendRecv is the operation of kernels that send and receive. Some ranks alone may run one, with different messages.
const SendRecv = "SendRecv"

// bySends are the calls that NCCL carries out by sends and receives: what they do is their name.
var bySends = []string{"AlltoAll", "Gather", "Scatter"}

// OperationOf returns the NCCL operation of a kernel, by its mangled name; for SendRecv, that of the call
// ("ncclAlltoAll" and so on). It is "" for other kernels, and where the call is not known.
func OperationOf(mangled, call string) string {
	operation, _ := timeline.NCCLKernel(mangled)
	if name := strings.TrimPrefix(call, "nccl"); operation == SendRecv && slices.Contains(bySends, name) {
		return name
	}
	return operation
}

// Sends reports whether a kernel of NCCL sends and receives, by its mangled name.
func Sends(mangled string) bool {
	operation, _ := timeline.NCCLKernel(mangled)
	return operation == SendRecv
}
