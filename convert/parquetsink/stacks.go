package parquetsink

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

// stackIDs adds the number of a stack, that of the stack that called it, nil for none, and the number of frames around it.
func (b *buffer) stackIDs(own uint32, parent *uint32, depth uint32) {
	b.small(own)
	if parent != nil && depth > 0 {
		b.small(*parent)
	} else {
		b.small(null)
	}
	b.small(depth)
}

// stack is the number of a Python stack, null for none. It sees to it that the stack has its rows.
func (p *part) stack(of *timeline.Python) uint32 {
	if of == nil {
		return null
	}
	withRows(of, of.Frames(), p.stacks, func(f *timeline.Python, depth uint32) {
		b, parent := p.buffer(stackTable), (*uint32)(nil)
		if f.Parent != nil {
			parent = &f.Parent.ID
		}
		b.stackIDs(f.ID, parent, depth)
		b.text(f.Own().Text())
		b.text(f.File)
		b.text(f.Function)
		b.known(f.First)
		b.known(f.Line)
		p.sink.end(b)
	})
	return of.ID
}

// native is the number of a native stack, null for none. It sees to it that the stack has its rows.
func (p *part) native(of *timeline.Native) uint32 {
	if of == nil {
		return null
	}
	withRows(of, of.Frames(), p.natives, func(f *timeline.Native, depth uint32) {
		b, parent := p.buffer(nativeTable), (*uint32)(nil)
		if f.Parent != nil {
			parent = &f.Parent.ID
		}
		b.stackIDs(f.ID, parent, depth)
		b.text(f.Module)
		b.text(f.Function())
		b.text(f.Text())
		p.sink.end(b)
	})
	return of.ID
}
