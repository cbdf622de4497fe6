package tracelog

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/blockfile"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// eventLog has several processes, devices and streams, and what refers to them. It is
// flushed often, so that it has index blocks on the way.
func eventLog(t testing.TB, finish bool) []byte {
	t.Helper()
	w, out := newTestWriter(t, Options{RowsPerBlock: 100})
	rnd := rand.New(rand.NewPCG(3, 4))
	w.Add(&Clock{Monotonic: 500, Realtime: 9})
	for pid := uint32(1); pid <= 3; pid++ {
		w.Add(&Process{PID: pid, Start: 1000, Exe: fmt.Sprint("app", pid)})
	}
	for i := range uint64(3000) {
		pid, at := uint32(1+rnd.IntN(3)), 1000+i*100
		w.Add(&Call{PID: pid, TID: pid*10 + uint32(rnd.IntN(2)), Func: uint32(rnd.IntN(3)), Enter: at, Dur: rnd.Uint64N(500)})
		w.Add(&Kernel{GPU: GPU{PID: pid, Device: uint32(rnd.IntN(2)), Context: 1, Stream: uint32(7 + rnd.IntN(3)), Start: at * uint64(rnd.IntN(9)) / 8, Dur: rnd.Uint64N(900)}, Name: fmt.Sprint("k", i%9)})
		if i%40 == 0 {
			w.Add(&Note{Time: at, PID: pid * uint32(i/40%2), Text: "n"})
			w.Add(&Memcpy{GPU: GPU{PID: pid, Device: 1, Stream: 7, Start: at, Dur: 50}, Bytes: i})
		}
		if i%200 == 199 {
			must.Do(t, w.Flush())
		}
	}
	if finish {
		must.Do(t, w.Close(End{Time: 700_000, Complete: 1}))
	}
	return out.Bytes()
}

// wanted are the lines of the records of a log that a filter wants, read with or without
// the index.
func wanted(t *testing.T, r *Reader, f Filter, index bool) (lines []string) {
	t.Helper()
	if index {
		must.Do(t, r.Select(f))
	}
	for r.Next() {
		b := r.Block()
		for i := range b.N {
			if b.Kind != KindEnd && f.Match(b, i) {
				record := NewRecord(b.Kind)
				record.Read(b, i)
				lines = append(lines, fmt.Sprintf("%v %+v", b.Kind, record))
			}
		}
	}
	return lines
}

var filters = map[string]Filter{
	"all":         {},
	"time":        {From: 100_000, To: 110_000},
	"from":        {From: 290_000},
	"to":          {To: 5000},
	"kind":        {Kinds: []Kind{KindMemcpy}},
	"kinds, time": {Kinds: []Kind{KindMemcpy, KindNote}, From: 200_000, To: 300_000},
	"process":     {PIDs: []uint32{2}},
	"processes":   {PIDs: []uint32{1, 3}, From: 250_000, To: 260_000},
	"thread":      {TIDs: []uint32{31}, Kinds: []Kind{KindCall}},
	"device":      {Devices: []uint32{0}, Kinds: []Kind{KindKernel, KindMemcpy}},
	"stream":      {Streams: []uint32{8}, Kinds: []Kind{KindKernel}, From: 200_000, To: 220_000},
	"nothing":     {Kinds: []Kind{KindMemoryPool}},
	"no such":     {PIDs: []uint32{99}, Kinds: []Kind{KindCall}},
	"largest":     {TIDs: []uint32{1<<32 - 1}, Devices: []uint32{1<<32 - 1}, Streams: []uint32{1<<32 - 1}},
	"times": {
		From: 10_000, To: 290_000, Times: []Time{{10_000, 12_000}, {150_000, 150_000}, {280_000, 290_000}},
	},
	"time is empty": {From: 10, To: 5},
}

// What Select leaves out, no filter wants; and all else is there, in order, whether
// the log is finished, was cut, or has lost parts of its index.
func TestSelect(t *testing.T) {
	t.Parallel()
	log, open := eventLog(t, true), eventLog(t, false)
	blocks := blocksOf(t, log)
	noFooter, badIndex := bytes.Clone(log), bytes.Clone(log)
	noFooter[len(noFooter)-1] ^= 1
	for i, b := range blocks {
		if b.header.Type == blockfile.Index && i > len(blocks)/2 {
			badIndex[b.to-1] ^= 1
			break
		}
	}
	for which, log := range map[string][]byte{"finished": log, "open": open, "cut": open[:len(open)*2/3],
		"without a footer": noFooter, "with a damaged index": badIndex} {
		for name, f := range filters {
			want := wanted(t, openBytes(t, log), f, false)
			r := openBytes(t, log)
			got := wanted(t, r, f, true)
			if !slices.Equal(got, want) {
				t.Errorf("%s, %s: %d records, want %d", which, name, len(got), len(want))
			}
			parallel := openBytes(t, log)
			parallel.Parallel(3)
			if again := wanted(t, parallel, f, true); !slices.Equal(again, want) {
				t.Errorf("%s, %s: %d records in parallel, want %d", which, name, len(again), len(want))
			}
			if err := parallel.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// A narrow filter reads a small part of the log, with a footer and without.
func TestSelectReadsLittle(t *testing.T) {
	t.Parallel()
	log := launches(t, 100_000)
	w, out := newTestWriter(t, Options{})
	work := newWorkload()
	for i := range 100_000 {
		work.write(w)
		if i%5000 == 4999 {
			must.Do(t, w.Flush())
		}
	}
	ranks, ranksOut := newTestWriter(t, Options{})
	for i := range 100_000 {
		work.step()
		pid := uint32(10 + i%8)
		work.call.PID, work.api.PID, work.kernel.PID, work.kernel.Device = pid, pid, pid, pid-10
		work.call.AddTo(ranks)
		work.api.AddTo(ranks)
		work.kernel.AddTo(ranks)
	}
	must.Do(t, ranks.Close(End{}))
	for name, c := range map[string]struct {
		log   []byte
		f     Filter
		share float64 // of the log's bytes, at most
	}{
		"ranks, process":   {ranksOut.Bytes(), Filter{PIDs: []uint32{12}}, 0.17},
		"ranks, device":    {ranksOut.Bytes(), Filter{Kinds: []Kind{KindKernel}, Devices: []uint32{3}}, 0.12},
		"finished, time":   {log, Filter{From: 1_000_100_000_000, To: 1_000_100_100_000}, 0.35},
		"finished, kind":   {log, Filter{Kinds: []Kind{KindFunction}}, 0.01},
		"finished, thread": {log, Filter{Kinds: []Kind{KindCall}, TIDs: []uint32{4712}}, 0.15},
		"finished, stream": {log, Filter{Kinds: []Kind{KindKernel}, Streams: []uint32{9}}, 0.12},
		"open, time":       {out.Bytes(), Filter{From: 1_000_000_000_000, To: 1_000_000_100_000}, 0.20},
		"open, kind":       {out.Bytes(), Filter{Kinds: []Kind{KindFunction}}, 0.15},
	} {
		r := openBytes(t, c.log)
		lines := wanted(t, r, c.f, true)
		share := float64(r.BytesRead()) / float64(len(c.log))
		t.Logf("%s: %d records, %.1f %% of %d bytes", name, len(lines), 100*share, len(c.log))
		if share > c.share {
			t.Errorf("%s: %.1f %% of the log were read", name, 100*share)
		}
	}
}

// An index that lies makes no record appear twice or out of place.
func TestSelectDistrustsTheIndex(t *testing.T) {
	t.Parallel()
	log := eventLog(t, true)
	want := wanted(t, openBytes(t, log), Filter{}, false)
	for i, b := range blocksOf(t, log) {
		if b.header.Type != blockfile.Index || i%4 > 0 {
			continue
		}
		l := schema.LayoutOf(schema.Index)
		e := newEncoder(t)
		rows := []uint64{blockfile.FileHeaderSize, uint64(KindCall), 0, 1, 0, 0, 0, 0, 0, 0}
		lie := withBlock(bytes.Clone(log[:b.from]), blockfile.Index, uint32(i), e.AppendTable(nil, l, e.Transpose(l, rows), nil))
		lie = append(lie, log[b.to:]...)
		if got := wanted(t, openBytes(t, lie), Filter{}, true); len(got) > len(want) {
			t.Errorf("block %d: %d records, the log has %d", i, len(got), len(want))
		}
	}
}

func TestSelectTooLate(t *testing.T) {
	r := openBytes(t, smallLog(t))
	r.Next()
	if err := r.Select(Filter{}); err == nil || err.Error() != "test.cudatrace cannot be filtered after reading has begun" {
		t.Errorf("error %v", err)
	}
}

// Decoding ahead changes nothing: every log, whatever is wrong with it, reads the same.
func TestParallel(t *testing.T) {
	t.Parallel()
	for name, log := range readerSeeds(t) {
		r, err := NewReader(bytes.NewReader(log), int64(len(log)), "test.cudatrace")
		if err != nil {
			continue
		}
		ahead := openBytes(t, log)
		ahead.Parallel(3)
		one, many := allLines(r), allLines(ahead)
		if !slices.Equal(one, many) || r.Damage().String() != ahead.Damage().String() {
			t.Errorf("%s: %d records in sequence, %d in parallel; %v and %v", name, len(one), len(many), r.Damage(), ahead.Damage())
		}
		if err := ahead.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A reader that is closed in the middle leaves no goroutine behind: stop waits for them.
func TestParallelStops(t *testing.T) {
	t.Parallel()
	log := launches(t, 20_000)
	for stop := range 12 {
		r := openBytes(t, log)
		r.Parallel(2)
		for range stop {
			r.Next()
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if r.Next() {
			t.Error("a closed reader gives a block")
		}
	}
}

// Kept blocks stay what they were while the reader goes on, on any goroutine.
func TestKeep(t *testing.T) {
	t.Parallel()
	log := launches(t, 12_000)
	want := wanted(t, openBytes(t, log), Filter{}, false)
	for _, workers := range []int{0, 2} {
		r := openBytes(t, log)
		r.Parallel(workers)
		results := make([]chan []string, 0)
		for r.Next() {
			if r.Block().Kind == KindEnd {
				continue
			}
			b, result := r.Keep(), make(chan []string, 1)
			results = append(results, result)
			go func() {
				var lines []string
				for i := range b.N {
					record := NewRecord(b.Kind)
					record.Read(b, i)
					lines = append(lines, fmt.Sprintf("%v %+v", b.Kind, record))
				}
				b.Release()
				result <- lines
			}()
		}
		var got []string
		for _, result := range results {
			got = append(got, <-result...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d workers: %d records, want %d", workers, len(got), len(want))
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Columns say what the records say.
func TestColumnAccess(t *testing.T) {
	r := openBytes(t, eventLog(t, true))
	var room []uint64
	for r.Next() {
		b := r.Block()
		if b.Kind != KindKernel {
			continue
		}
		start, stream, name := b.Column("start"), b.Column("stream"), b.Column("name")
		if v, ok := stream.Const(); !ok || v < 7 || v > 9 {
			t.Fatalf("stream is %d, %v", v, ok)
		}
		starts := start.Values(room)
		room = stream.Values(room)
		for i := range b.N {
			var k Kernel
			k.Read(b, i)
			if k.Start != starts[i] || k.Start != start.At(i) || uint64(k.Stream) != room[i] || k.Name != b.Text(name.At(i)) || start.Len() != b.N {
				t.Fatalf("row %d differs from %+v", i, k)
			}
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	r.Block().Column("colour")
}

// The newest part of a log has all that is no event, and the events behind an offset.
func TestSelectNewest(t *testing.T) {
	for _, finish := range []bool{true, false} {
		log := eventLog(t, finish)
		read := func(from int64) (events, others, bytes int64) {
			r := openBytes(t, log)
			until := must.Get(r.SelectNewest(from))(t)
			all := openBytes(t, log) // what is later than until is not left out
			later := 0
			for all.Next() {
				if b := all.Block(); b.Kind == KindCall {
					later += laterThan(b, until)
				}
			}
			for r.Next() {
				if b := r.Block(); schema.LayoutOf(b.Kind).Role == schema.Event {
					events += int64(b.N)
					if b.Kind == KindCall {
						later -= laterThan(b, until)
					}
				} else {
					others += int64(b.N)
				}
			}
			if err := r.Err(); err != nil && (finish || !IsDamage(err)) {
				t.Error(err)
			}
			if later != 0 || (from == 0) != (until == 0) {
				t.Errorf("finished %t: from byte %d, calls until %d are left out, and %d later ones", finish, from, until, later)
			}
			return events, others, r.BytesRead()
		}
		events, others, bytes := read(0)
		size := int64(len(log))
		newer, same, fewer := read(size / 2)
		if newer == 0 || newer > events*3/4 || same != others || fewer >= bytes {
			t.Errorf("finished %t: %d of %d events, %d of %d others, %d of %d bytes", finish, newer, events, same, others, fewer, bytes)
		}
		if newer, same, _ := read(size); finish && newer != 0 || newer > events/2 || same != others {
			t.Errorf("finished %t: %d of %d events, %d of %d others behind the end", finish, newer, events, same, others)
		}
	}
}

// laterThan counts the calls that are entered after a time.
func laterThan(b *Block, at uint64) (n int) {
	enters := b.Column("enter")
	for i := range b.N {
		if enters.At(i) > at {
			n++
		}
	}
	return n
}
