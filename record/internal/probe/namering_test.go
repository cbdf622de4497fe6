package probe

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/must"
)

// inMemory makes a ring buffer in plain memory.
func ringInMemory(size int, records ...[]byte) *nameRing {
	r := &nameRing{consumer: make([]byte, 8), producer: make([]byte, 8), data: make([]byte, 2*size), mask: uint64(size - 1)}
	for _, b := range records {
		r.put(uint32(len(b)), b)
	}
	return r
}

func (r *nameRing) put(length uint32, b []byte) {
	at := binary.LittleEndian.Uint64(r.producer)
	record := binary.LittleEndian.AppendUint32(nil, length)
	record = append(append(record, 0, 0, 0, 0), b...)
	for i, c := range record {
		place := (at + uint64(i)) & r.mask
		r.data[place], r.data[place+r.mask+1] = c, c
	}
	binary.LittleEndian.PutUint64(r.producer, at+uint64(len(record)+7)&^7)
}

func (r *nameRing) texts(t *testing.T) []string {
	t.Helper()
	var got []string
	must.Get(r.drain(func(b []byte) error { got = append(got, string(b)); return nil }))(t)
	return got
}

func TestNameRing(t *testing.T) {
	r := ringInMemory(64, []byte("one"), []byte("eleven char"))
	if diff := cmp.Diff([]string{"one", "eleven char"}, r.texts(t)); diff != "" {
		t.Error(diff)
	}
	if got := r.texts(t); got != nil {
		t.Errorf("again: %q", got)
	}
	// The next ones wrap around, one is dropped by its writer, one is being written.
	r.put(20, []byte("twenty characters ab"))
	r.put(3|recordDiscard, []byte("bad"))
	r.put(2|recordBusy, []byte("no"))
	if diff := cmp.Diff([]string{"twenty characters ab"}, r.texts(t)); diff != "" {
		t.Error(diff)
	}
	if at, end := binary.LittleEndian.Uint64(r.consumer), binary.LittleEndian.Uint64(r.producer); end-at != 16 {
		t.Errorf("the reader stands at %d of %d", at, end)
	}
}
