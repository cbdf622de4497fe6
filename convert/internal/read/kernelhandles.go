package read

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// maxHandles bounds the chain of handles from a handle to the one that has a name.
const maxHandles = 8

// KernelHandles map a program's function handles to kernels. After a module was unloaded, its
// handles may stand for other kernels. Nil has no handles.
type KernelHandles struct {
	byHandle map[uint64][]tracelog.Symbol // by time
	kernels  map[string]*timeline.Kernel
}

func newKernelHandles(list []tracelog.Symbol) *KernelHandles {
	if len(list) == 0 {
		return nil
	}
	h := &KernelHandles{make(map[uint64][]tracelog.Symbol), make(map[string]*timeline.Kernel)}
	slices.SortStableFunc(list, func(a, b tracelog.Symbol) int { return cmp.Compare(a.Time, b.Time) })
	for _, x := range list {
		h.byHandle[x.Handle] = append(h.byHandle[x.Handle], x)
	}
	return h
}

// Kernel returns the kernel that a handle stood for at a time, nil when that is not known.
func (h *KernelHandles) Kernel(handle, at uint64) *timeline.Kernel {
	if h == nil {
		return nil
	}
	for range maxHandles {
		list := h.byHandle[handle]
		if len(list) == 0 {
			return nil
		}
		// A handle used before it was made was first made unseen, for the same kernel.
		i, _ := slices.BinarySearchFunc(list, at, func(x tracelog.Symbol, at uint64) int {
			if x.Time <= at {
				return -1
			}
			return 1
		})
		x := &list[max(i-1, 0)]
		if x.Name != "" {
			return h.named(x.Name)
		}
		handle = x.Of
	}
	return nil
}

// LookedUp returns the name of the kernel that the program looked up last by a time, and when; "" for none. It looks a
// kernel up when it launches it for the first time, or soon before.
func (h *KernelHandles) LookedUp(by uint64) (name string, at uint64) {
	if h == nil {
		return "", 0
	}
	for _, list := range h.byHandle {
		for _, x := range list {
			if x.Name != "" && x.Time <= by && x.Time >= at {
				name, at = x.Name, x.Time
			}
		}
	}
	return name, at
}

func (h *KernelHandles) named(name string) *timeline.Kernel {
	k := h.kernels[name]
	if k == nil {
		k = &timeline.Kernel{Name: name}
		h.kernels[name] = k
	}
	return k
}
