package logtest

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// A Capture is the logs of the ranks of a program, recorded on real GPUs of one host: what their times say of each
// other is true.
type Capture struct {
	pattern       string // in testdata/gpu/logs
	Ranks         int
	Streams       int // of each rank, with collectives
	Communicators int
	// ns by which clocks of hosts may be wrong: the shorter the collectives' part of the log, the more
	Bound uint64
	Off   int64 // ns by which they are at most
}

// Captures are all captures.
var Captures = []Capture{
	{"nccl-rank%d.cudatrace", 2, 2, 2, 2e6, 20e3},
	{"ranks/clocks-rank%d.cudatrace", 4, 2, 2, 3e6, 75e3},
}

// Paths returns the path of the log of each rank. root is the path of the repository.
func (c *Capture) Paths(root string) (paths []string) {
	for rank := range c.Ranks {
		paths = append(paths, filepath.Join(root, "testdata/gpu/logs", fmt.Sprintf(c.pattern, rank)))
	}
	return paths
}

// A HostClock is the clock of another host: it shows Shift ns more at a time From, and is faster by Drift millionths.
type HostClock struct {
	From  uint64
	Shift int64
	Drift float64
}

// HostClocks returns a clock for each rank of a capture. That of rank 0 is right, and that of the last one drifts by
// drift.
func HostClocks(ranks int, from uint64, shift int64, drift float64) (clocks []HostClock) {
	for i := range ranks {
		clocks = append(clocks, HostClock{from, int64(i) * shift, drift * float64(i) / float64(ranks-1)})
	}
	return clocks
}

// At returns what the clock shows at a time.
func (c *HostClock) At(t uint64) uint64 {
	d := float64(int64(t - c.From))
	return uint64(int64(c.From) + c.Shift + int64(d+d*c.Drift/1e6))
}

// OnHost returns a log as another host would have recorded it, whose wall clock is right.
func OnHost(t testing.TB, path, host string, clock HostClock) []byte {
	t.Helper()
	r := must.Get(tracelog.Open(path))(t)
	defer r.Close()
	var out bytes.Buffer
	w := must.Get(tracelog.NewWriter(&out, tracelog.Options{}))(t)
	for r.Next() {
		b := r.Block()
		for i := range b.N {
			record := tracelog.NewRecord(b.Kind)
			if record == nil {
				continue // the end, which follows
			}
			record.Read(b, i)
			clock.move(record)
			if m, ok := record.(*tracelog.Meta); ok && (m.Key == tracelog.MetaHost || m.Key == tracelog.MetaBoot) {
				m.Value = host
			}
			w.Add(record)
		}
	}
	end, ok := r.End()
	if r.Err() != nil || !ok {
		t.Fatalf("%s: no end: %v", path, r.Err())
	}
	end.Time = clock.At(end.Time)
	must.Do(t, w.Close(end))
	return out.Bytes()
}

// move puts the times of a record on the clock. A duration is from the record's first time on.
func (c *HostClock) move(record tracelog.Record) {
	l, members := schema.LayoutOf(record.Kind()), reflect.ValueOf(record).Elem()
	member := func(field int) reflect.Value { return members.FieldByName(l.Fields[field].GoName()) }
	for n, field := range l.Times {
		at := member(field)
		if at.Uint() == 0 { // not known
			continue
		}
		moved := c.At(at.Uint())
		if n == 0 && l.Dur >= 0 {
			dur := member(l.Dur)
			dur.SetUint(c.At(at.Uint()+dur.Uint()) - moved)
		}
		at.SetUint(moved)
	}
}
