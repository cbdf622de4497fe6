package recipe

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// Each recorded value of each function comes from where the table says it is.
func TestRecipes(t *testing.T) {
	for _, f := range cudaapi.Functions(cudaapi.All) {
		r, err := compile(f)
		if err != nil {
			t.Error(err)
			continue
		}
		places := ownConvention.places(f)
		for i, a := range f.Args {
			if got, want := describe(r, r.Ops[i]), expectedSource(a, places[a.Index]); got != want {
				t.Errorf("%s, %s: %s, want %s", f.Name, a.Name, got, want)
			}
		}
	}
}

func expectedSource(a cudaapi.Arg, at place) string {
	size := a.Type.Bytes()
	switch {
	case a.From == cudaapi.FromOut:
		return fmt.Sprintf("%d bytes at %d of what word %d points to, after", size, a.Offset, at.word)
	case a.From == cudaapi.FromField, at.pointer:
		return fmt.Sprintf("%d bytes at %d of what word %d points to", size, a.Offset, at.word)
	}
	return fmt.Sprintf("%d bytes at %d", size, at.word*8+a.Offset)
}

// describe reads an operation as the eBPF program does.
func describe(r *bpf.ProbesRecipe, op bpf.ProbesOp) string {
	size := map[uint64]int{1<<32 - 1: 4, 1<<64 - 1: 8}[op.Mask]
	pointed := fmt.Sprintf("%d bytes at %d of what word %d points to", size, op.Offset, int(op.Source)/8)
	switch {
	case op.Kind == bpf.OpOut:
		return pointed + ", after"
	case op.Kind == bpf.OpField:
		return pointed
	case op.Source >= bpf.BlockAt:
		within := int(op.Source) - bpf.BlockAt
		if within+size > int(r.BlockSize) {
			return "outside of the block"
		}
		return fmt.Sprintf("%d bytes at %d of what word %d points to", size, within+int(r.BlockOffset), r.BlockSource/8)
	case int(op.Source)+size > (ownConvention.registers+int(r.StackArgs))*8:
		return "an argument on the stack that is not read"
	}
	return fmt.Sprintf("%d bytes at %d", size, op.Source)
}

// Where the two calling conventions put the arguments of functions that take structs.
func TestConventions(t *testing.T) {
	for _, c := range []struct {
		name         string
		sysV, aapcs  []int
		byPointer    []int // on AArch64
		stackOnSysV  int   // words that are recorded of the stack
		stackOnAapcs int
	}{
		// func, dim3, dim3, args, shared, stream: a dim3 is two words.
		{"cudaLaunchKernel", []int{0, 1, 3, 5, 6, 7}, []int{0, 1, 3, 5, 6, 7}, nil, 2, 0},
		// pitchedPtr, value, extent, stream
		{"cudaMemset3DAsync", []int{6, 0, 10, 1}, []int{0, 1, 2, 3}, []int{0, 2}, 7, 0},
		// devPtr, handle, flags
		{"cudaIpcOpenMemHandle", []int{0, 6, 1}, []int{0, 1, 2}, []int{1}, 0, 0},
		// devPtr, bytes, advice, location
		{"cuMemAdvise_v2", []int{0, 1, 2, 3}, []int{0, 1, 2, 3}, nil, 0, 0},
		{"cudaMemcpy2DArrayToArray", []int{0, 1, 2, 3, 4, 5, 6, 7, 8}, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}, nil, 3, 1},
	} {
		f := cudaapi.ByName(c.name)
		for _, side := range []struct {
			convention convention
			words      []int
			pointers   []int
			stack      int
		}{{sysV, c.sysV, nil, c.stackOnSysV}, {aapcs, c.aapcs, c.byPointer, c.stackOnAapcs}} {
			var words, pointers []int
			for i, at := range side.convention.places(f) {
				words = append(words, at.word)
				if at.pointer {
					pointers = append(pointers, i)
				}
			}
			if diff := cmp.Diff(side.words, words); diff != "" {
				t.Errorf("%s, %d registers: %s", c.name, side.convention.registers, diff)
			}
			if diff := cmp.Diff(side.pointers, pointers); diff != "" {
				t.Errorf("%s, %d registers, pointers: %s", c.name, side.convention.registers, diff)
			}
			if side.convention != ownConvention {
				continue
			}
			if r, err := compile(f); err != nil || int(r.StackArgs) != side.stack {
				t.Errorf("%s reads %d words of the stack, want %d (%v)", c.name, r.StackArgs, side.stack, err)
			}
		}
	}
}
