package parquet

import "encoding/binary"

// Type numbers of Thrift's compact protocol.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftI32    = 5
	thriftI64    = 6
	thriftBinary = 8
	thriftList   = 9
	thriftStruct = 12
)

// A thrift encodes values in Thrift's compact protocol. Fields of a struct come in the order of
// their numbers.
type thrift struct {
	b    []byte
	last []int16 // number of the last field of each open struct
}

func newThrift() *thrift { return &thrift{last: []int16{0}} }

func (t *thrift) field(number int16, kind byte) {
	last := &t.last[len(t.last)-1]
	t.b = append(t.b, byte(number-*last)<<4|kind) // all steps are less than 16
	*last = number
}

func (t *thrift) i32(number int16, v int32) {
	t.field(number, thriftI32)
	t.zigzag(int64(v))
}

func (t *thrift) i64(number int16, v int64) {
	t.field(number, thriftI64)
	t.zigzag(v)
}

func (t *thrift) bool(number int16, v bool) {
	kind := byte(thriftFalse)
	if v {
		kind = thriftTrue
	}
	t.field(number, kind)
}

func (t *thrift) binary(number int16, v []byte) {
	t.field(number, thriftBinary)
	t.bytes(v)
}

// begin opens a struct that is a field.
func (t *thrift) begin(number int16) {
	t.field(number, thriftStruct)
	t.open()
}

// open opens a struct that is an element of a list.
func (t *thrift) open() { t.last = append(t.last, 0) }

// end closes a struct.
func (t *thrift) end() {
	t.b = append(t.b, 0)
	t.last = t.last[:len(t.last)-1]
}

// list begins a list, whose elements follow.
func (t *thrift) list(number int16, kind byte, n int) {
	t.field(number, thriftList)
	if n < 15 {
		t.b = append(t.b, byte(n)<<4|kind)
		return
	}
	t.b = append(t.b, 15<<4|kind)
	t.b = binary.AppendUvarint(t.b, uint64(n))
}

func (t *thrift) bytes(v []byte) {
	t.b = binary.AppendUvarint(t.b, uint64(len(v)))
	t.b = append(t.b, v...)
}

func (t *thrift) zigzag(v int64) { t.b = binary.AppendVarint(t.b, v) }
