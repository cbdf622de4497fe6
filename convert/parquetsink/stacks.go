package parquetsink

import "github.com/cudatrace/cudatrace/convert/timeline"

// stack is the number of a Python stack, null for none. It sees to it that the stack has its rows.
func (p *part) stack(of *timeline.Python) uint32 {
	if of == nil {
		return null
	}
	if !p.stacks[of] {
		depth := uint32(0)
		for range of.Frames() {
			depth++
		}
		for f := range of.Frames() {
			if depth--; p.stacks[f] {
				break
			}
			p.stacks[f] = true
			p.stackRow(f, depth)
		}
	}
	return of.ID
}

func (p *part) stackRow(f *timeline.Python, depth uint32) {
	b := p.buffer(stackTable)
	b.small(f.ID)
	if f.Parent != nil && depth > 0 {
		b.small(f.Parent.ID)
	} else {
		b.small(null)
	}
	b.small(depth)
	b.text(f.Own().Text())
	b.text(f.File)
	b.text(f.Function)
	b.known(f.First)
	b.known(f.Line)
	p.sink.end(b)
}
