package probe

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Each recorded value of each function comes from where the table says it is.
func TestRecipes(t *testing.T) {
	for _, f := range cudaapi.Functions(cudaapi.All) {
		r, err := compileRecipe(f)
		if err != nil {
			t.Error(err)
			continue
		}
		places := ownConvention.places(f)
		for i, a := range f.Args {
			if got, want := describeOp(r, r.Ops[i]), expectedSource(a, places[a.Index]); got != want {
				t.Errorf("%s, %s: %s, want %s", f.Name, a.Name, got, want)
			}
		}
	}
}

func expectedSource(a cudaapi.Arg, at argumentPlace) string {
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
func describeOp(r *bpf.ProbesRecipe, op bpf.ProbesOp) string {
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
			convention callingConvention
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
			if r, err := compileRecipe(f); err != nil || int(r.StackArgs) != side.stack {
				t.Errorf("%s reads %d words of the stack, want %d (%v)", c.name, r.StackArgs, side.stack, err)
			}
		}
	}
}

// The words that a plain function's event has give the values that its recipe asks for.
func TestPlain(t *testing.T) {
	found := map[string]int{}
	for _, f := range cudaapi.Functions(cudaapi.All) {
		r := must.Get(compileRecipe(f))(t)
		p, ok := compilePlain(uint32(f.ID), r)
		if !ok {
			continue
		}
		area, event := exampleWords(p, r)
		found[f.Name] = len(event) / 8
		var got tracelog.Call
		p.arguments(&got, event)
		want := tracelog.Call{NArgs: uint32(len(f.Args))}
		for i, op := range r.Ops[:r.Nargs] {
			want.Args[i] = binary.LittleEndian.Uint64(area[op.Source:]) & op.Mask
		}
		if diff := cmp.Diff(want, got); diff != "" || len(event) != 8*p.words {
			t.Errorf("%s, %d bytes, %d words: %s", f.Name, len(event), p.words, diff)
		}
		if uint32(p.cookie)&0xffff != uint32(f.ID) {
			t.Errorf("%s, function %d: cookie %#x", f.Name, f.ID, p.cookie)
		}
	}
	for _, name := range []string{"cuLaunchKernel", "cuLaunchKernelEx", "cuMemcpyAsync", "cuMemsetD8Async", "cuGraphLaunch", "cuStreamSynchronize"} {
		if found[name] == 0 {
			t.Errorf("%s is not read as a plain function", name)
		}
	}
	for _, name := range []string{"cuMemAlloc_v2", "cuMemcpy3D_v2"} {
		if found[name] != 0 {
			t.Errorf("%s is read as a plain function, of %d words", name, found[name])
		}
	}
}

// exampleWords fills what a recipe copies from with different bytes, and makes of it the
// words that the eBPF program would by the cookie.
func exampleWords(p *plainFunction, r *bpf.ProbesRecipe) (area, event []byte) {
	area = make([]byte, bpf.BlockAt+bpf.BlockSize+8)
	for i := range area {
		area[i] = byte(i*7 + 1)
	}
	registers := bpf.LessRegisters
	if p.cookie&bpf.CookieAllRegisters != 0 {
		registers = ownConvention.registers
	}
	stack, block := int(p.cookie>>bpf.CookieStackWords&7), int(p.cookie>>bpf.CookieBlockWords&7)
	event = append(event, area[:8*registers]...)
	event = append(event, area[8*ownConvention.registers:][:8*stack]...)
	if int(r.BlockSource) != 8*int(p.cookie>>bpf.CookieBlockRegister&3) || uint64(r.BlockOffset) != p.cookie>>bpf.CookieBlockOffset {
		return area, nil
	}
	return area, append(event, area[bpf.BlockAt:][:8*block]...)
}

// What is more than plain stays with its recipe.
func TestNotPlain(t *testing.T) {
	for name, change := range map[string]func(*bpf.ProbesRecipe){
		"quiet":        func(r *bpf.ProbesRecipe) { r.Quiet = 1 },
		"later":        func(r *bpf.ProbesRecipe) { r.Later = 1 },
		"range":        func(r *bpf.ProbesRecipe) { r.Range = bpf.RangeEnd },
		"symbol":       func(r *bpf.ProbesRecipe) { r.Symbol = bpf.SymbolNamed },
		"through":      func(r *bpf.ProbesRecipe) { r.Ops[0].Kind = bpf.OpField },
		"stack":        func(r *bpf.ProbesRecipe) { r.StackArgs = 8 },
		"odd struct":   func(r *bpf.ProbesRecipe) { r.BlockSize = 12 },
		"large struct": func(r *bpf.ProbesRecipe) { r.BlockSize = 56 },
		"far struct":   func(r *bpf.ProbesRecipe) { r.BlockSize, r.BlockOffset = 8, math.MaxUint16+1 },
		"register":     func(r *bpf.ProbesRecipe) { r.BlockSize, r.BlockSource = 8, 40 },
	} {
		r := must.Get(compileRecipe(cudaapi.ByName("cuLaunchKernel")))(t)
		if _, ok := compilePlain(1, r); !ok {
			t.Fatal("a launch is not plain")
		}
		change(r)
		if _, ok := compilePlain(1, r); ok {
			t.Errorf("%s: taken for a plain function", name)
		}
	}
}

// A call of a function without words, or with too few, is refused.
func TestMalformedPlain(t *testing.T) {
	var table recipeTable
	table.plain[7] = &plainFunction{words: 5, args: []eventWord{{at: 32, wide: true}}}
	words := make([]byte, 8*4)
	for _, function := range []uint32{6, 7, bpf.MaxFunctions, math.MaxUint16} {
		if err := table.arguments(&tracelog.Call{Func: function}, words); err == nil {
			t.Errorf("function %d has other words, but is taken", function)
		}
	}
}
