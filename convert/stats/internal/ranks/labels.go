package ranks

import (
	"github.com/cudatrace/cudatrace/convert/collective"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// labels have the kernels of NCCL, the communicators and the sizes of their messages, each with a number.
type labels struct {
	kernels map[kernelName]uint32
	list    []kernel
	numbers map[label]uint32
	all     []label
}

// A kernel is a kernel of NCCL.
type kernel struct{ title, operation string }

// A kernelName is the mangled name of a kernel, with what it does.
type kernelName struct{ mangled, operation string }

// operationOf is what a kernel does: where it sends and receives, the call of NCCL says for what.
func operationOf(mangled string, said *timeline.NCCL) string {
	call := ""
	if said != nil {
		call = said.Call
	}
	return collective.OperationOf(mangled, call)
}

// A label is what the parts of a collective have in common.
type label struct {
	message
	// its hash, of kernels that send and receive; 0 where NCCL does not tell, and of others, whose lane has it
	communicator uint64
}

// A message is a kernel with the bytes of its message, as NCCL's call has them.
type message struct {
	kernel uint32
	bytes  uint64
	sized  bool // bytes are known
}

// A use is a kernel that a communicator runs.
type use struct {
	kernel       uint32
	communicator uint64
}

func (l label) use() use { return use{l.kernel, l.communicator} }

const (
	maxKernels = 1 << 11 // kernels of NCCL that are told apart
	maxSizes   = 1 << 12 // labels up to which new ones have a size
	maxLabels  = 1 << 13 // the last maxKernels of them are kernels alone
)

// of returns the number of a kernel's label. Sizes beyond maxSizes are not kept, and of very many labels communicators
// neither.
func (l *labels) of(mangled string, said *timeline.NCCL, communicator uint64, names timeline.KernelNames) uint32 {
	x := label{communicator: communicator}
	x.kernel = l.kernel(kernelName{mangled, operationOf(mangled, said)}, names)
	if said != nil && said.HasBytes {
		x.bytes, x.sized = said.Bytes, true
	}
	n, known := l.numbers[x]
	if !known && x.sized && len(l.all) >= maxSizes {
		x.bytes, x.sized = 0, false
		n, known = l.numbers[x]
	}
	if !known && len(l.all) >= maxLabels-maxKernels {
		x.communicator = 0
		n, known = l.numbers[x]
	}
	if !known {
		n = uint32(len(l.all))
		l.numbers[x], l.all = n, append(l.all, x)
	}
	return n
}

// kernel returns the number of a kernel.
func (l *labels) kernel(name kernelName, names timeline.KernelNames) uint32 {
	n, known := l.kernels[name]
	if !known {
		if len(l.list) >= maxKernels {
			return maxKernels - 1
		}
		n = uint32(len(l.list))
		k := kernel{names.Of(name.mangled).Short, name.operation}
		if collective.Sends(name.mangled) && name.operation != collective.SendRecv {
			k.title += " (" + name.operation + ")"
		}
		l.kernels[name], l.list = n, append(l.list, k)
	}
	return n
}
