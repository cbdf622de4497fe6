package joined

import (
	"iter"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// withRows sees to it that a stack and those that called it have their rows.
func withRows[S any](of *S, frames iter.Seq[*S], have map[*S]bool, row func(f *S, depth uint32)) {
	if have[of] {
		return
	}
	depth := uint32(0)
	for range frames {
		depth++
	}
	for f := range frames {
		if depth--; have[f] {
			break
		}
		have[f] = true
		row(f, depth)
	}
}

// idOf is the number of a stack that called another one, null for none.
func idOf(parent *uint32, depth uint32) uint32 {
	if parent == nil || depth == 0 {
		return None
	}
	return *parent
}

// stack is the number of a Python stack, null for none. It sees to it that the stack has its rows.
func (p *part) stack(of *timeline.Python) uint32 {
	if of == nil {
		return None
	}
	withRows(of, of.Frames(), p.stacks, func(f *timeline.Python, depth uint32) {
		var parent *uint32
		if f.Parent != nil {
			parent = &f.Parent.ID
		}
		row(p, Stack{StackID: f.ID, ParentID: idOf(parent, depth), Depth: depth,
			Python: f.Own().Text(), File: f.File, Function: f.Function, FirstLine: known(f.First), Line: known(f.Line)})
	})
	return of.ID
}

// native is the number of a native stack, null for none. It sees to it that the stack has its rows.
func (p *part) native(of *timeline.Native) uint32 {
	if of == nil {
		return None
	}
	withRows(of, of.Frames(), p.natives, func(f *timeline.Native, depth uint32) {
		var parent *uint32
		if f.Parent != nil {
			parent = &f.Parent.ID
		}
		row(p, NativeStack{
			NativeID: f.ID, ParentID: idOf(parent, depth), Depth: depth, Module: f.Module, Function: f.Function(),
			Frame: f.Text(),
		})
	})
	return of.ID
}
