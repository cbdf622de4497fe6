package recipe

import (
	"fmt"
	"math"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// compile makes the recipe that tells the eBPF program where the arguments of a function are.
func compile(f *cudaapi.Function) (*bpf.ProbesRecipe, error) {
	r := &bpf.ProbesRecipe{Nargs: uint8(len(f.Args))}
	places := ownConvention.places(f)
	block := chooseBlock(f.Args)
	if block.to > block.from {
		r.BlockSource = uint8(places[block.index].word * 8)
		r.BlockOffset, r.BlockSize = uint32(block.from), uint8(block.to-block.from)
	}
	for i, a := range f.Args {
		place := places[a.Index]
		used := place.word + 1
		if a.From == cudaapi.FromValue && !place.pointer {
			used += (a.Offset + a.Type.Bytes() - 1) / 8
		}
		stack := used - ownConvention.registers
		if stack > bpf.MaxStackArgs {
			return nil, fmt.Errorf("argument %s of %s lies too far up the stack", a.Name, f.Name)
		}
		r.StackArgs = max(r.StackArgs, uint8(max(stack, 0)))
		r.Ops[i] = compileArg(a, place, block)
		if r.Ops[i].Kind == bpf.OpOut {
			r.Later = 1
		}
	}
	return r, nil
}

// A block is the part of a struct that the eBPF program reads in one go.
type block struct {
	index    int // number of the argument that points to the struct
	from, to int // byte offsets in it
}

// chooseBlock takes the recorded fields of the first struct, from the lowest up, as far as they
// fit.
func chooseBlock(args []cudaapi.Arg) block {
	b := block{index: -1, from: math.MaxInt}
	for _, a := range args {
		if a.From == cudaapi.FromField && (b.index < 0 || a.Index == b.index) {
			b.index, b.from = a.Index, min(b.from, a.Offset)
		}
	}
	if b.index < 0 {
		return block{}
	}
	for _, a := range args {
		if end := a.Offset + a.Type.Bytes(); b.holds(a) && end <= b.from+bpf.BlockSize {
			b.to = max(b.to, end)
		}
	}
	return b
}

func (b block) holds(a cudaapi.Arg) bool {
	return a.From == cudaapi.FromField && a.Index == b.index
}

func compileArg(a cudaapi.Arg, at place, b block) bpf.ProbesOp {
	op := bpf.ProbesOp{Mask: math.MaxUint64, Source: uint16(at.word * 8), Kind: bpf.OpCopy}
	if a.Type.Bytes() == 4 {
		op.Mask = math.MaxUint32
	}
	switch {
	case a.From == cudaapi.FromOut:
		op.Kind, op.Offset = bpf.OpOut, uint32(a.Offset)
	case b.holds(a) && a.Offset+a.Type.Bytes() <= b.to:
		op.Source = uint16(bpf.BlockAt + a.Offset - b.from)
	case a.From == cudaapi.FromField, a.From == cudaapi.FromValue && at.pointer:
		op.Kind, op.Offset = bpf.OpField, uint32(a.Offset)
	case a.From == cudaapi.FromValue:
		op.Source += uint16(a.Offset)
	}
	return op
}
