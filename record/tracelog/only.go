package tracelog

import "github.com/cudatrace/cudatrace/record/tracelog/schema"

// onlyFields are the fields of which a reader decodes the columns, by the numbers of this
// version's schema: a block is decoded before it is known what the log's own schema says.
type onlyFields struct {
	bits    [schema.Kinds]uint64 // by number of the kind; 0 is all
	foreign [schema.Kinds]bool   // the log has other numbers for these
}

// Only limits what Next decodes of the records of some kinds to some fields: the others
// read as 0, and a fault in them that a checksum does not tell is not found; see
// Damage.Join. It must come before the first Next.
func (r *Reader) Only(fields map[Kind][]string) {
	r.only = &onlyFields{}
	for k, names := range fields {
		l := schema.LayoutOf(k)
		for _, name := range names {
			if f := l.Field(name); f >= 0 {
				r.only.bits[k] |= 1 << f
			}
		}
	}
}

// compare takes note of where the log's schema differs.
func (o *onlyFields) compare(s *logSchema) {
	if o == nil {
		return
	}
	for k, bits := range o.bits {
		if bits == 0 {
			continue
		}
		l := schema.LayoutOf(Kind(k))
		file := s[k]
		if file == nil { // see fill
			continue
		}
		for f, at := range mapping(l, file) {
			if bits>>f&1 != 0 && at != f {
				o.foreign[k] = true
			}
		}
	}
}

// misled says whether a block was decoded by the wrong numbers.
func (o *onlyFields) misled(t *task) bool {
	return o != nil && t.dec.only != nil && t.table != nil && t.table.number < uint64(schema.Kinds) && o.foreign[t.table.number]
}

// needed are the columns of a table that are asked for and those that these refer to, by
// their places.
func (d *decoder) needed(table uint64) (all uint64) {
	if d.only == nil || table >= uint64(schema.Kinds) || d.only.bits[table] == 0 {
		return 1<<64 - 1
	}
	for i := len(d.stubs) - 1; i >= 0; i-- {
		s := &d.stubs[i]
		if all>>i&1 == 0 && d.only.bits[table]>>s.field&1 == 0 {
			continue
		}
		all |= 1 << i
		if s.refers && s.ref < uint64(i) {
			all |= 1 << s.ref
		}
	}
	return all
}
