package tracelog

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/logtest"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// TestMain lets garbage of tests grow: a sixth of their time went to the collector.
func TestMain(m *testing.M) {
	if flag.Parse(); flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(400)
		debug.SetMemoryLimit(1 << 30)
	}
	m.Run()
}

// allKinds has every kind of record that a caller adds.
var allKinds = func() (all []Kind) {
	for _, table := range schema.Records() {
		if NewRecord(table.Kind) != nil {
			all = append(all, table.Kind)
		}
	}
	return all
}()

// Callers add records of all kinds but strings, which are the writer's own, and the End
// record, which is given to Close.
func TestNewRecord(t *testing.T) {
	if len(allKinds) != len(schema.Records())-2 {
		t.Errorf("%d kinds of record can be added: %v", len(allKinds), allKinds)
	}
	for _, k := range allKinds {
		if got := NewRecord(k).Kind(); got != k {
			t.Errorf("the record of kind %v is of kind %v", k, got)
		}
	}
}

// normal makes a record what the log keeps of it: a call has no arguments beyond NArgs, a sample no
// values beyond NValues.
func normal(record any) any {
	switch r := record.(type) {
	case *Call:
		r.NArgs = min(r.NArgs, MaxArgs)
		clear(r.Args[r.NArgs:])
	case *Sample:
		r.NValues = min(r.NValues, MaxMetrics)
		clear(r.Values[r.NValues:])
	}
	return record
}

// openBytes opens a log in memory.
func openBytes(t testing.TB, log []byte) *Reader {
	t.Helper()
	r := must.Get(NewReader(bytes.NewReader(log), int64(len(log)), "test.cudatrace"))(t)
	return r
}

func newTestWriter(t testing.TB, o Options) (*Writer, *bytes.Buffer) {
	t.Helper()
	var b bytes.Buffer
	w := must.Get(NewWriter(&b, o))(t)
	return w, &b
}

// readAll returns the records of each kind, and fails on damage.
func readAll(t testing.TB, r *Reader) map[Kind][]any {
	t.Helper()
	all := make(map[Kind][]any)
	for r.Next() {
		b := r.Block()
		if b.Kind == KindEnd {
			continue
		}
		for i := range b.N {
			record := NewRecord(b.Kind)
			record.Read(b, i)
			all[b.Kind] = append(all[b.Kind], record)
		}
	}
	must.Do(t, r.Err())
	return all
}

// allLines has all records of a log, one line a record, with the fields that the log's own
// schema names.
func allLines(r *Reader) (lines []string) {
	for r.Next() {
		b := r.Block()
		for i := range b.N {
			line := b.Name()
			for f, field := range b.Fields() {
				c := b.FileColumn(f)
				switch field.Type {
				case schema.String:
					line += fmt.Sprintf(" %s=%q", field.Name, b.Text(c.At(i)))
				case schema.Text:
					line += fmt.Sprintf(" %s=%q", field.Name, c.Text(i))
				default:
					line += fmt.Sprintf(" %s=%d", field.Name, c.At(i))
				}
			}
			if b.Fields() == nil {
				for f := range 2 {
					c := b.FileColumn(f)
					line += fmt.Sprintf(" %d=%d", f, c.At(i))
				}
			}
			lines = append(lines, line)
		}
	}
	return lines
}

func TestRoundTrip(t *testing.T) {
	for _, rows := range []int{1, 2, 15, 16, 17, 300, 1000} {
		for _, k := range allKinds {
			t.Run(k.String(), func(t *testing.T) {
				t.Parallel()
				number, text := logtest.Hostile(rand.New(rand.NewPCG(uint64(rows), uint64(k))))
				w, out := newTestWriter(t, Options{RowsPerBlock: 256})
				want := make(map[string]int)
				for range rows {
					record := NewRecord(k)
					logtest.Fill(record, number, text)
					w.Add(record)
					want[key(normal(record))]++
				}
				must.Do(t, w.Close(End{Time: 5, Complete: 1}))
				r := openBytes(t, out.Bytes())
				got := make(map[string]int)
				for _, record := range readAll(t, r)[k] {
					got[key(record)]++
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				if end, ok := r.End(); !ok || end != (End{Time: 5, Complete: 1}) {
					t.Errorf("end is %+v, %v", end, ok)
				}
			})
		}
	}
}

// Blocks of records with the same key keep their order.
func TestOrderWithinKey(t *testing.T) {
	w, out := newTestWriter(t, Options{RowsPerBlock: 100})
	for i := range 1000 {
		w.Add(&Note{Time: uint64(1000 - i), Text: "n"})
	}
	must.Do(t, w.Close(End{}))
	for i, n := range readAll(t, openBytes(t, out.Bytes()))[KindNote] {
		if n.(*Note).Time != uint64(1000-i) {
			t.Fatalf("note %d has time %d", i, n.(*Note).Time)
		}
	}
}

// Strings and definitions stand in front of the first block that needs them.
func TestDefinitionsComeFirst(t *testing.T) {
	w, out := newTestWriter(t, Options{RowsPerBlock: 4})
	for i := range uint32(100) {
		w.Add(&Function{ID: i, Name: "f"})
		for range i % 5 {
			w.Add(&Call{PID: 1, TID: i % 3, Func: i, Enter: 1})
		}
		w.Add(&Kernel{GPU: GPU{PID: 1}, Name: string(rune('A' + i))})
	}
	must.Do(t, w.Close(End{}))
	known := make(map[uint32]bool)
	r := openBytes(t, out.Bytes())
	for r.Next() {
		b := r.Block()
		for i := range b.N {
			switch b.Kind {
			case KindFunction:
				var f Function
				f.Read(b, i)
				known[f.ID] = true
			case KindCall:
				var c Call
				c.Read(b, i)
				if !known[c.Func] {
					t.Fatalf("a call of function %d stands before the function", c.Func)
				}
			case KindKernel:
				var k Kernel
				k.Read(b, i)
				if k.Name == lostText {
					t.Fatal("a kernel stands before its name")
				}
			}
		}
	}
}

// What a record says of the log is so where it stands.
func TestFlushedComesLast(t *testing.T) {
	w, out := newTestWriter(t, Options{RowsPerBlock: 50})
	for i := range uint64(1000) {
		w.Add(&Flushed{Until: i})
		w.Add(&Call{PID: 1, TID: uint32(i % 3), Func: uint32(i % 7), Enter: i + 1})
		if i%90 == 89 {
			w.Flush()
		}
	}
	must.Do(t, w.Close(End{}))
	r := openBytes(t, out.Bytes())
	calls := uint64(0)
	for r.Next() {
		b := r.Block()
		for i := range b.N {
			switch b.Kind {
			case KindCall:
				calls++
			case KindFlushed:
				var f Flushed
				if f.Read(b, i); calls < f.Until {
					t.Fatalf("only %d calls stand in front of the record that says %d", calls, f.Until)
				}
			}
		}
	}
	if calls != 1000 {
		t.Errorf("%d calls", calls)
	}
}

// However seldom the log is written, a block does not wait long for more records of a key that has few.
func TestSlowBlocks(t *testing.T) {
	w, out := newTestWriter(t, Options{})
	const n, every = 1_000_000, 1000
	for i := range uint64(n) {
		w.Add(&Call{PID: 1, TID: uint32(i % 4), Enter: i})
		if i%every == 0 {
			w.Add(&Call{PID: 1, TID: 10, Enter: i})
		}
	}
	must.Do(t, w.Close(End{}))
	r := openBytes(t, out.Bytes())
	blocks, slow, rows := 0, 0, 0
	var latest uint64
	for r.Next() {
		b := r.Block()
		if b.Kind != KindCall {
			continue
		}
		var c Call
		c.Read(b, 0)
		if c.Enter+maxWait+maxWait/4 < latest {
			t.Fatalf("a call of time %d stands behind one of %d", c.Enter, latest)
		}
		if blocks++; c.TID == 10 {
			slow++
		}
		c.Read(b, b.N-1)
		latest = max(latest, c.Enter)
		rows += b.N
	}
	if err := r.Err(); err != nil || rows != n+n/every {
		t.Errorf("%d calls, %v", rows, err)
	}
	if slow < n/maxWait || blocks > slow+n/8192+4 {
		t.Errorf("%d blocks, of which %d are of the slow thread", blocks, slow)
	}
}

// A definition that comes just when old blocks are finished stands before these.
func TestDefinitionsBeforeSlowBlocks(t *testing.T) {
	w, out := newTestWriter(t, Options{})
	w.Add(&Device{PID: 1, ID: 1})
	w.Add(&Thread{PID: 1, TID: 1})
	for w.open.rows < maxWait+maxWait/8-2 {
		w.Add(&Call{PID: 1, TID: uint32(w.open.rows % 64), Enter: w.open.rows})
	}
	w.Add(&Device{PID: 1, ID: 7})
	w.Add(&Thread{PID: 1, TID: 2}) // old blocks are finished at this row
	must.Do(t, w.Close(End{}))
	r := openBytes(t, out.Bytes())
	calls := 0
	for r.Next() {
		switch b := r.Block(); b.Kind {
		case KindDevice, KindThread:
			if calls > 0 {
				t.Errorf("a block of definitions stands behind %d of calls", calls)
			}
		case KindCall:
			calls++
		}
	}
	if err := r.Err(); err != nil || calls < 64 {
		t.Errorf("%d blocks of calls, %v", calls, err)
	}
}

func TestStringsAreBounded(t *testing.T) {
	for name, o := range map[string]Options{"count": {MaxStrings: 40}, "bytes": {MaxStringBytes: reserveBytes + 40}} {
		t.Run(name, func(t *testing.T) {
			w, out := newTestWriter(t, o)
			for i := range 1000 {
				w.Add(&Note{Text: "note " + string(rune('a'+i%26)) + string(rune('a'+i/26))})
			}
			for i, cause := range LostCauses {
				w.Add(&Lost{Cause: cause, Count: uint64(i)})
			}
			must.Do(t, w.Close(End{Complete: 1}))
			r := openBytes(t, out.Bytes())
			all := readAll(t, r)
			full := 0
			for _, n := range all[KindNote] {
				if n.(*Note).Text == fullText {
					full++
				}
			}
			for i, cause := range LostCauses {
				if got := all[KindLost][i].(*Lost); got.Cause != cause {
					t.Errorf("the cause %s is %q", cause, got.Cause)
				}
			}
			lost := all[KindLost][len(LostCauses)].(*Lost)
			if lost.Cause != LostStrings || lost.Count != uint64(full) || full == 0 || full == 1000 {
				t.Errorf("%d texts are %q, the log says %+v", full, fullText, lost)
			}
			if end, _ := r.End(); end.Complete != 0 || end.Reason == "" || end.Reason == fullText {
				t.Errorf("end is %+v", end)
			}
		})
	}
}

func TestLongString(t *testing.T) {
	w, out := newTestWriter(t, Options{})
	long := string(bytes.Repeat([]byte("x"), schema.MaxString))
	w.Add(&Note{Text: long})
	w.Add(&Note{Text: long + "y"})
	must.Do(t, w.Close(End{Complete: 1}))
	notes := readAll(t, openBytes(t, out.Bytes()))[KindNote]
	if notes[0].(*Note).Text != long {
		t.Error("a text of the largest length is not kept")
	}
	if got := notes[1].(*Note).Text; len(got) != schema.MaxString || got[schema.MaxString-len(cutMark):] != cutMark {
		t.Errorf("a text beyond it has %d bytes and ends in %q", len(got), got[max(0, len(got)-20):])
	}
}

// With a bound on open blocks and on their memory nothing is lost either.
func TestManyOpenBlocks(t *testing.T) {
	w, out := newTestWriter(t, Options{MaxOpen: 10, MaxMemory: 100 << 10})
	const n = 5000
	for i := range uint32(n) {
		w.Add(&Call{PID: 1, TID: i % 37, Func: i % 11, Enter: uint64(i)})
		if len(w.open.list) > 10 {
			t.Fatalf("%d blocks are open", len(w.open.list))
		}
		if w.open.memory > 100<<10+16*20*8 {
			t.Fatalf("open blocks hold %d bytes", w.open.memory)
		}
	}
	must.Do(t, w.Close(End{}))
	seen := make(map[uint64]bool)
	for _, c := range readAll(t, openBytes(t, out.Bytes()))[KindCall] {
		seen[c.(*Call).Enter] = true
	}
	if len(seen) != n {
		t.Errorf("%d calls of %d are in the log", len(seen), n)
	}
}

// A fullDisk takes so many bytes and then nothing more.
type fullDisk struct {
	buf  bytes.Buffer
	room int
}

func (d *fullDisk) Write(b []byte) (int, error) {
	n := min(len(b), d.room-d.buf.Len())
	d.buf.Write(b[:n])
	if n < len(b) {
		return n, logtest.ErrFull
	}
	return n, nil
}

// Whatever the byte at which the disk is full, each record is in the log or counted.
func TestFullDisk(t *testing.T) {
	const given = 2000
	for room := 8000; room < 44000; room += 997 {
		disk := &fullDisk{room: room}
		w := must.Get(NewWriter(disk, Options{RowsPerBlock: 100, MaxOpen: 7, MaxMemory: 40 << 10}))(t)
		for i := range uint32(given) {
			w.Add(&Call{PID: 1, TID: i % 3, Func: i % 5, Enter: rand.Uint64() >> 1})
			w.Add(&Kernel{GPU: GPU{PID: 1, Start: rand.Uint64() >> 1}, Name: string(rune('a' + i%26))})
			if i%500 == 499 {
				w.Flush()
			}
		}
		if err := w.Close(End{}); err == nil {
			t.Fatalf("room %d: a full disk is no error", room)
		}
		dropped := w.Dropped()
		r := openBytes(t, disk.buf.Bytes())
		got := map[Kind]uint64{}
		for r.Next() {
			got[r.Block().Kind] += uint64(r.Block().N)
		}
		for _, k := range []Kind{KindCall, KindKernel} {
			if got[k]+dropped[k] != given {
				t.Errorf("room %d: %d %v records are in the log, %d counted as dropped, %d were given", room, got[k], k, dropped[k], given)
			}
		}
		var cut *TruncatedError
		if !errors.As(r.Err(), &cut) {
			t.Errorf("room %d: the reader says %v", room, r.Err())
		}
	}
}

// key tells records apart.
func key(record any) string { return fmt.Sprintf("%T %+q", record, fmt.Sprintf("%+v", record)) }

// Recorders add records from several goroutines while another one flushes.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	w, out := newTestWriter(t, Options{RowsPerBlock: 64, MaxOpen: 8})
	const workers, each = 4, 2000
	var wg sync.WaitGroup
	for worker := range uint32(workers) {
		wg.Go(func() {
			for i := range uint32(each) {
				w.Add(&Call{PID: 1, TID: worker, Func: i % 5, Enter: uint64(i + 1)})
				w.Add(&Kernel{GPU: GPU{PID: 1, Stream: worker, Start: uint64(i + 1)}, Name: fmt.Sprint("kernel ", i%9)})
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			w.Flush()
			w.Size()
			w.Dropped()
		}
	})
	wg.Wait()
	must.Do(t, w.Close(End{Complete: 1}))
	all := readAll(t, openBytes(t, out.Bytes()))
	if len(all[KindCall]) != workers*each || len(all[KindKernel]) != workers*each {
		t.Errorf("%d calls and %d kernels", len(all[KindCall]), len(all[KindKernel]))
	}
}

// What has been flushed is in the file, whatever comes after.
func TestFlush(t *testing.T) {
	w, out := newTestWriter(t, Options{})
	w.Add(&Call{PID: 1})
	before := out.Len()
	must.Do(t, w.Flush())
	if n := survivors(openBytes(t, out.Bytes())); n != 1 || out.Len() == before {
		t.Errorf("%d records after Flush", n)
	}
	size := out.Len()
	if err := w.Flush(); err != nil || out.Len() != size {
		t.Errorf("a flush of nothing wrote %d bytes, error %v", out.Len()-size, err)
	}
	if len(w.open.byKey) != 0 {
		t.Errorf("%d blocks without records are open", len(w.open.byKey))
	}
}

// Reading rows allocates nothing.
func TestReadAllocations(t *testing.T) {
	r := openBytes(t, launches(t, 1000))
	var call Call
	var kernel Kernel
	for r.Next() {
		b := r.Block()
		n := testing.AllocsPerRun(1, func() {
			for i := range b.N {
				switch b.Kind {
				case KindCall:
					call.Read(b, i)
				case KindKernel:
					kernel.Read(b, i)
				}
			}
			b.Time()
		})
		if n != 0 {
			t.Errorf("%v allocations in a block of %v records", n, b.Kind)
		}
	}
}

// Asking a block for another kind of record is a mistake that shows at once.
func TestWrongKindPanics(t *testing.T) {
	r := openBytes(t, smallLog(t))
	r.Next()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	new(Device).Read(r.Block(), 0)
}

// Create makes the log file at path, which must not exist, and writes its beginning.
func Create(path string, o Options) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, err
	}
	return NewFileWriter(f, o)
}
