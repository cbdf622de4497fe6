package ring

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// Bounds of a state.
const (
	maxDefinitions = 1 << 18
	maxNotes       = 1 << 10
	maxOpen        = 1 << 18 // ranges and pools, and allocations
)

// A state is what the segments that were removed leave behind.
type state struct {
	definitions []tracelog.Record
	byKey       map[any]int // index of a definition
	notes       []tracelog.Note
	open        map[openKey]opening
	memory      *memory
	segment     int    // number of segments so far
	dropped     uint64 // records beyond the bounds
}

// An openKey identifies an NVTX range or a memory pool.
type openKey struct {
	kind tracelog.Kind
	pid  uint32
	id   uint64 // of a range, or an address
}

// An opening is the beginning of what has not ended, or an end that came before its beginning: records
// of several threads come in any order.
type opening struct {
	record  tracelog.Record // nil for an end
	at      uint64
	segment int
}

func newState() *state {
	return &state{byKey: map[any]int{}, open: map[openKey]opening{}, memory: newMemory()}
}

// clone returns a copy. The records are shared: nobody changes them.
func (s *state) clone() *state {
	c := *s
	c.definitions, c.notes = slices.Clone(s.definitions), slices.Clone(s.notes)
	c.byKey, c.open, c.memory = maps.Clone(s.byKey), maps.Clone(s.open), s.memory.clone()
	return &c
}

// opens are the kinds of event that begin and end something.
var opens = []tracelog.Kind{tracelog.KindMarker, tracelog.KindMemoryPool}

// isDefinition reports whether a kind of record has definitions.
func isDefinition(k tracelog.Kind) bool {
	l := schema.LayoutOf(k)
	return l != nil && l.Role == schema.Definition
}

// kept are the kinds of record that a state keeps.
func kept() []tracelog.Kind {
	kinds := append([]tracelog.Kind{tracelog.KindNote}, opens...)
	for _, t := range schema.Records() {
		if t.Role == schema.Definition {
			kinds = append(kinds, t.Kind)
		}
	}
	return kinds
}

// fold adds what a segment leaves behind.
func (s *state) fold(of *segment) error {
	if err := s.read(of, tracelog.Filter{Kinds: kept()}, func(*tracelog.Block, int) bool { return true }); err != nil {
		return err
	}
	return s.memory.fold(of)
}

// read adds the records of a segment that a filter selects and that are wanted.
func (s *state) read(of *segment, f tracelog.Filter, wanted func(*tracelog.Block, int) bool) error {
	s.segment++
	err := of.each(f, func(b *tracelog.Block) {
		x := tracelog.NewRecord(b.Kind)
		for i := range b.N {
			if wanted(b, i) {
				x.Read(b, i)
				s.takeRecord(x)
			}
		}
	})
	s.settle()
	return err
}

// settle forgets ends whose beginning will not come any more, and makes what was added in this segment
// independent of the segment's memory.
func (s *state) settle() {
	for k, o := range s.open {
		switch {
		case o.record == nil && o.segment < s.segment:
			delete(s.open, k)
		case o.record != nil && o.segment == s.segment:
			o.record = own(o.record)
			s.open[k] = o
		}
	}
}

// takeRecord adds a record, which remains the caller's.
func (s *state) takeRecord(x tracelog.Record) {
	switch x := x.(type) {
	case *tracelog.Note:
		s.note(x)
	case *tracelog.Marker:
		if x.Flags&(tracelog.MarkerStart|tracelog.MarkerEnd) != 0 {
			s.happened(openKey{tracelog.KindMarker, x.PID, uint64(x.ID)}, x, x.Time, x.Flags&tracelog.MarkerStart != 0)
		}
	case *tracelog.MemoryPool:
		if x.Operation != trimmed {
			s.happened(openKey{tracelog.KindMemoryPool, x.PID, x.Address}, x, x.Time, x.Operation == created)
		}
	default:
		s.define(x)
	}
}

// Operations of MemoryPool records.
const (
	created = 1
	trimmed = 3
)

func (s *state) note(n *tracelog.Note) {
	if len(s.notes) >= maxNotes {
		s.dropped++
		return
	}
	kept := *n
	kept.Text = strings.Clone(n.Text)
	s.notes = append(s.notes, kept)
}

// happened notes that something began or ended at a time.
func (s *state) happened(k openKey, x tracelog.Record, at uint64, begins bool) {
	last, known := s.open[k]
	switch {
	case known && last.at > at: // it ended, or began anew, after this
		if begins && last.record == nil {
			delete(s.open, k)
		}
	case !begins && known && last.record != nil:
		delete(s.open, k)
	case len(s.open) >= maxOpen:
		s.dropped++
	case begins:
		s.open[k] = opening{copied(x), at, s.segment}
	default:
		s.open[k] = opening{nil, at, s.segment}
	}
}

// define adds a definition, in the place of an earlier one of the same thing.
func (s *state) define(x tracelog.Record) {
	k := keyOf(x)
	at, known := s.byKey[k]
	switch {
	case known:
		s.definitions[at] = own(x)
	case len(s.definitions) >= maxDefinitions:
		s.dropped++
	default:
		x = own(x)
		s.byKey[keyOf(x)] = len(s.definitions)
		s.definitions = append(s.definitions, x)
	}
}

// A key identifies what a definition defines.
type key struct {
	kind tracelog.Kind
	id   [4]uint64
	text string
}

// keyOf is the key of a definition. Of a kind that is not listed, each different record has its own.
func keyOf(x tracelog.Record) any {
	k := key{kind: x.Kind()}
	switch x := x.(type) {
	case *tracelog.Meta:
		k.text = x.Key
	case *tracelog.Function:
		k.id = [4]uint64{uint64(x.ID)}
	case *tracelog.Process:
		k.id = [4]uint64{uint64(x.PID)} // the program that runs in it now
	case *tracelog.Thread:
		k.id = [4]uint64{uint64(x.PID), uint64(x.TID)}
	case *tracelog.Device:
		k.id = [4]uint64{uint64(x.PID), uint64(x.ID)}
	case *tracelog.Context:
		k.id = [4]uint64{uint64(x.PID), uint64(x.ID)}
	case *tracelog.Stream:
		k.id = [4]uint64{uint64(x.PID), uint64(x.Context), uint64(x.ID)}
	case *tracelog.Clock: // the last one
	case *tracelog.CUPTI:
		k.id = [4]uint64{uint64(x.PID)}
	case *tracelog.Name:
		k.id = [4]uint64{uint64(x.PID), uint64(x.ObjectKind), uint64(x.ID), uint64(x.Context)<<32 | uint64(x.Device)}
	case *tracelog.Symbol:
		k.id = [4]uint64{uint64(x.PID), x.Handle}
	case *tracelog.Caller:
		k.id = [4]uint64{uint64(x.ID)}
	default:
		return reflect.ValueOf(x).Elem().Interface()
	}
	return k
}

// copied returns a copy of a record.
func copied(x tracelog.Record) tracelog.Record {
	c := reflect.New(reflect.TypeOf(x).Elem())
	c.Elem().Set(reflect.ValueOf(x).Elem())
	return c.Interface().(tracelog.Record)
}

// own returns a copy of a record with texts of its own.
func own(x tracelog.Record) tracelog.Record {
	x = copied(x)
	v := reflect.ValueOf(x).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.String {
			f.SetString(strings.Clone(f.String()))
		}
	}
	return x
}
