package collective

import "strings"

// A kind is what the name of a kernel says.
type kind uint8

const (
	other  kind = iota // no kernel of NCCL, or one that some ranks alone run: send and receive
	counts             // all ranks of the communicator run it
	waits              // and none of them ends it before the last one has started it
)

// waiting are the collectives that end nowhere before all ranks have entered them. A broadcast and a reduction may: the
// root of a broadcast waits for nobody.
var waiting = []string{"AllReduce", "AllGather", "ReduceScatter", "AlltoAll", "AllToAll"}

// kindOf is the kind of a kernel, by its mangled name: "_Z31ncclDevKernel_AllReduce_Sum_f32_RING_LL24...", or
// "ncclKernel_AllReduce_RING_LL_Sum_float" of older versions.
func kindOf(mangled string) kind {
	name := strings.TrimLeft(strings.TrimPrefix(mangled, "_Z"), "0123456789")
	if !strings.HasPrefix(name, "nccl") {
		return other
	}
	_, operation, ok := strings.Cut(name, "Kernel_")
	if !ok || strings.HasPrefix(operation, "SendRecv") {
		return other
	}
	for _, w := range waiting {
		if strings.HasPrefix(operation, w) {
			return waits
		}
	}
	return counts
}
