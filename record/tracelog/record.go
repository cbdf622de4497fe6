package tracelog

import "github.com/cudatrace/cudatrace/record/tracelog/schema"

//go:generate go run ./internal/recordgen

// A Record is a record of some kind: a *Call, a *Kernel and so on. Times are nanoseconds of
// CLOCK_MONOTONIC, durations nanoseconds, sizes bytes. PID and TID are numbers of the
// recorder's own PID namespace.
type Record interface {
	Kind() Kind

	// AddTo adds the record to a log. The record is the caller's again when it returns.
	// After an error, or after Close, records are counted in Writer.Dropped instead.
	AddTo(*Writer)

	// Read fills the record from row i of a block, 0 <= i < Block.N, without allocating. It
	// panics on a block of another kind, which is a mistake of the caller and never one of
	// the file. A value too large for its member, which no writer makes, loses its upper bits.
	Read(b *Block, i int)
}

// A Kind numbers a type of record. Numbers are wire format: never reuse one.
type Kind = schema.Kind

// KindByName finds a kind of record by its name in the text form.
func KindByName(name string) (Kind, bool) { return schema.KindByName(name) }

// MaxArgs is the largest number of recorded arguments of a call.
const MaxArgs = schema.MaxArgs

// A row is a record as numbers, one for each field of its table and in the table's order;
// what lies beyond the table's fields has no meaning. Texts are numbers of the interner, so
// that a row is made under the writer's lock.
type row [schema.MaxFields]uint64
