package chromesink

import (
	"math"
	"strconv"

	"github.com/cudatrace/cudatrace/record/figures"
)

// An object appends the members of a JSON object.
type object struct {
	b    []byte
	more bool // the object has a member
}

func (o *object) key(name string) {
	if o.more {
		o.b = append(o.b, ',')
	}
	o.more = true
	o.b = figures.AppendJSON(o.b, name)
	o.b = append(o.b, ':')
}

func (o *object) uint(name string, v uint64) {
	o.key(name)
	o.b = strconv.AppendUint(o.b, v, 10)
}

func (o *object) int(name string, v int64) {
	o.key(name)
	o.b = strconv.AppendInt(o.b, v, 10)
}

// float adds a number. JSON has no infinities and no NaN: these become text.
func (o *object) float(name string, v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		o.string(name, strconv.FormatFloat(v, 'g', -1, 64))
		return
	}
	o.key(name)
	o.b = strconv.AppendFloat(o.b, v, 'g', -1, 64)
}

func (o *object) string(name, v string) {
	o.key(name)
	o.b = figures.AppendJSON(o.b, v)
}

// pointer adds an address as text, since a double holds only 53 bits of it.
func (o *object) pointer(name string, v uint64) {
	o.key(name)
	o.b = append(o.b, `"0x`...)
	o.b = strconv.AppendUint(o.b, v, 16)
	o.b = append(o.b, '"')
}

// triple adds an array of three numbers.
func (o *object) triple(name string, v [3]uint32) {
	o.key(name)
	for i, n := range v {
		o.b = append(o.b, "[,,"[i])
		o.b = strconv.AppendUint(o.b, uint64(n), 10)
	}
	o.b = append(o.b, ']')
}

// begin begins a member that is an object, end ends it.
func (o *object) begin(name string) {
	o.key(name)
	o.b = append(o.b, '{')
	o.more = false
}

func (o *object) end() {
	o.b = append(o.b, '}')
	o.more = true
}

// raw adds a member whose value is JSON already.
func (o *object) raw(name string, json []byte) {
	o.key(name)
	o.b = append(o.b, json...)
}

// micros adds a time in ns as microseconds with three decimals.
func (o *object) micros(name string, ns int64) {
	o.key(name)
	if ns < 0 {
		o.b = append(o.b, '-')
		ns = -ns
	}
	o.b = strconv.AppendInt(o.b, ns/1000, 10)
	part := ns % 1000
	o.b = append(o.b, '.', byte('0'+part/100), byte('0'+part/10%10), byte('0'+part%10))
}
