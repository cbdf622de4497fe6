package tracelog

import (
	"github.com/cudatrace/cudatrace/record/tracelog/internal/columns"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// A projection says which fields of which kinds a reader decodes. Fields have the numbers of
// this version: a block may be decoded before the log's own schema is known.
type projection struct {
	fields     columns.Projection
	renumbered [schema.Kinds]bool // the log has other numbers for wanted fields of these kinds
}

// Project makes Next decode only the named fields of the records of some kinds. All other
// fields of these kinds are 0, and faults in them that no checksum shows are not found; see
// Damage.Join. Kinds that are not named are decoded in full. Project must come before the first
// Next.
func (r *Reader) Project(fields map[Kind][]string) {
	r.projection = &projection{}
	for k, names := range fields {
		l := schema.LayoutOf(k)
		for _, name := range names {
			if f := l.Field(name); f >= 0 {
				r.projection.fields[k] |= 1 << f
			}
		}
	}
}

// apply makes a decoder decode the wanted fields only. A nil projection wants all.
func (p *projection) apply(d *columns.Decoder) {
	if p == nil {
		d.Project(nil)
		return
	}
	d.Project(&p.fields)
}

// compare takes note of where the log's schema differs from this version's.
func (p *projection) compare(s *logSchema) {
	if p == nil {
		return
	}
	for k, bits := range p.fields {
		if bits == 0 {
			continue
		}
		for f, at := range s.placesOf(schema.LayoutOf(Kind(k))) {
			if bits>>f&1 != 0 && at != f {
				p.renumbered[k] = true
			}
		}
	}
}

// misled reports whether a block was decoded by the wrong numbers.
func (p *projection) misled(t *decoding) bool {
	return p != nil && t.dec.Projected() && t.table != nil && t.table.Number < uint64(schema.Kinds) && p.renumbered[t.table.Number]
}
