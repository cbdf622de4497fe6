package perfetto

import (
	"fmt"
	"slices"
)

// A GPU describes a GPU.
type GPU struct {
	ID                                uint32 // 0, 1, 2 ... without gaps
	Name, Vendor, Model, Architecture string
	UUID                              []byte   // 16 bytes
	Extra                             []string // further properties: key, value, key, value ...
}

// GPUs describes all GPUs, in the order of their ids. It is called at most once.
func (w *Writer) GPUs(gpus []GPU) {
	if w.gpus {
		w.output.fail(fmt.Errorf("perfetto: the GPUs are described twice"))
		return
	}
	w.gpus = true
	b := w.common.begin()
	info := b.open(packetGPUInfo)
	for i := range gpus {
		if gpus[i].ID != uint32(i) {
			w.output.fail(fmt.Errorf("perfetto: GPU %d is described in the place of GPU %d", gpus[i].ID, i))
		}
		b.gpu(&gpus[i])
	}
	b.close(info)
	w.common.end()
}

func (b *buffer) gpu(g *GPU) {
	start := b.open(infoGPU)
	b.optional(gpuName, g.Name)
	b.optional(gpuVendor, g.Vendor)
	b.optional(gpuModel, g.Model)
	b.optional(gpuArch, g.Architecture)
	if len(g.UUID) > 0 {
		b.bytes(gpuUUID, g.UUID)
	}
	for i := 0; i+1 < len(g.Extra); i += 2 {
		extra := b.open(gpuExtra)
		b.text(gpuExtraKey, g.Extra[i])
		b.text(gpuExtraValue, g.Extra[i+1])
		b.close(extra)
	}
	b.close(start)
}

// A Kernel describes a kernel: the facts that all its launches share.
type Kernel struct {
	Name      string // mangled
	Demangled string
	Args      []Arg
}

// A KernelID is the number of a kernel of a [Writer]. 0 is no kernel.
type KernelID uint32

// Kernel registers a kernel. Each queue interns the kernel with its first launch there, so
// k.Args must not change.
func (w *Writer) Kernel(k Kernel) KernelID {
	w.kernels = append(w.kernels, k)
	return KernelID(len(w.kernels))
}

// KernelWith registers a kernel again, with further arguments. Work in the trace then has the arguments of a launch
// from its kernel, which takes less of each launch.
func (w *Writer) KernelWith(id KernelID, args []Arg) KernelID {
	k := w.kernels[id-1]
	k.Args = slices.Concat(k.Args, args)
	return w.Kernel(k)
}
