package ranks

import (
	"github.com/cudatrace/cudatrace/convert/collective"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// labels have the kernels of NCCL and the sizes of their messages, each with a number.
type labels struct {
	kernels map[string]uint32 // by mangled name
	list    []kernel
	numbers map[label]uint32
	all     []label
}

// A kernel is a kernel of NCCL.
type kernel struct{ title, operation string }

// A label is what the parts of a collective have in common.
type label struct {
	kernel uint32
	bytes  uint64 // of the message, as NCCL's call has them
	sized  bool   // bytes are known
}

const (
	maxKernels = 1 << 12 // kernels of NCCL that are told apart
	maxLabels  = 1 << 13 // labels: half of them are for kernels without a size
)

// of returns the number of a kernel's label. A size beyond maxLabels is not kept.
func (l *labels) of(mangled string, said *timeline.NCCL, names timeline.KernelNames) uint32 {
	x := label{kernel: l.kernel(mangled, names)}
	if said != nil && said.HasBytes {
		x.bytes, x.sized = said.Bytes, true
	}
	n, known := l.numbers[x]
	if !known && x.sized && len(l.all) >= maxLabels-maxKernels {
		x.bytes, x.sized = 0, false
		n, known = l.numbers[x]
	}
	if !known {
		n = uint32(len(l.all))
		l.numbers[x], l.all = n, append(l.all, x)
	}
	return n
}

// kernel returns the number of a kernel.
func (l *labels) kernel(mangled string, names timeline.KernelNames) uint32 {
	n, known := l.kernels[mangled]
	if !known {
		if len(l.list) >= maxKernels {
			return maxKernels - 1
		}
		n = uint32(len(l.list))
		l.kernels[mangled], l.list = n, append(l.list, kernel{names.Of(mangled).Short, collective.Operation(mangled)})
	}
	return n
}
