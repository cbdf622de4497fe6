package recipe

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// The words that a plain function's event has give the values that its recipe asks for.
func TestPlain(t *testing.T) {
	found := map[string]int{}
	for _, f := range cudaapi.Functions(cudaapi.All) {
		r, err := compile(f)
		if err != nil {
			t.Fatal(err)
		}
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
func exampleWords(p *plain, r *bpf.ProbesRecipe) (area, event []byte) {
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
		r, err := compile(cudaapi.ByName("cuLaunchKernel"))
		if err != nil {
			t.Fatal(err)
		}
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
	var table Table
	table.plain[7] = &plain{words: 5, args: []word{{at: 32, wide: true}}}
	words := make([]byte, 8*4)
	for _, function := range []uint32{6, 7, bpf.MaxFunctions, math.MaxUint16} {
		if err := table.Arguments(&tracelog.Call{Func: function}, words); err == nil {
			t.Errorf("function %d has other words, but is taken", function)
		}
	}
}
