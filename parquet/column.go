package parquet

import "math"

// A Type is the type of a column.
type Type uint8

// The types, and their names in SQL.
const (
	Int   Type = iota // 64 bits, signed: BIGINT
	Float             // 64 bits: DOUBLE
	Text              // UTF-8: VARCHAR
	Bool              // BOOLEAN
	Time              // microseconds since 1970, UTC: TIMESTAMP
)

// A Column is a column of a table.
type Column struct {
	Name     string
	Type     Type
	Nullable bool
}

// The values that are null in a nullable column. NaN is null among floats.
const (
	NullInt  = math.MinInt64  // also of Bool and Time
	NullText = math.MaxUint32 // as an index

	NullSmall = math.MaxUint32
)

// Values are the values of a column in a row group: the list for the column's type.
type Values struct {
	Ints   []int64  // Int, Time; Bool has 0 and 1
	Small  []uint32 // in place of Ints: of Int where all numbers are small
	Floats []float64
	Index  []uint32 // the values of a text column, as indexes into Texts
	Texts  []string // each text once; some may have no row

	Repeated int // number of rows that all have the only value of the list; 0 where the list has a value for each row
}

// Numbers of the file format.
const (
	physicalBool   = 0
	physicalInt    = 2
	physicalDouble = 5
	physicalBytes  = 6

	convertedUTF8   = 0
	convertedMicros = 10

	encodingPlain      = 0
	encodingRuns       = 3
	encodingDelta      = 5
	encodingDictionary = 8

	pageData       = 0
	pageDictionary = 2

	codecZstd = 6
)

// physical are the types in which values are stored.
var physical = [...]int32{
	Int: physicalInt, Float: physicalDouble, Text: physicalBytes, Bool: physicalBool, Time: physicalInt,
}

// describe adds the column to the schema.
func (c *Column) describe(t *thrift) {
	t.open()
	t.i32(1, physical[c.Type])
	repetition := int32(0)
	if c.Nullable {
		repetition = 1
	}
	t.i32(3, repetition)
	t.binary(4, []byte(c.Name))
	switch c.Type {
	case Text:
		t.i32(6, convertedUTF8)
		t.begin(10)
		t.begin(1)
		t.end()
		t.end()
	case Time:
		t.i32(6, convertedMicros)
		t.begin(10)
		t.begin(8)
		t.bool(1, true) // UTC
		t.begin(2)
		t.begin(2) // microseconds
		t.end()
		t.end()
		t.end()
		t.end()
	}
	t.end()
}
