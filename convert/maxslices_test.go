package convert

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/must"
)

// launchesFile writes a log of launches.
func launchesFile(t testing.TB, launches int) string {
	t.Helper()
	var log bytes.Buffer
	logtest.WriteLaunches(t, &log, launches)
	path := filepath.Join(t.TempDir(), "launches.cudatrace")
	must.Do(t, os.WriteFile(path, log.Bytes(), 0o600))
	return path
}

// TestMaxSlices bounds the number of slices, and the trace says what it keeps.
func TestMaxSlices(t *testing.T) {
	t.Parallel()
	path := launchesFile(t, 5000)
	whole := traceTo(t, Path(path).Open, TraceOptions{}, io.Discard).Slices
	for _, o := range []TraceOptions{
		{MaxSlices: whole / 10}, {MaxSlices: whole / 2}, {MaxSlices: whole / 2, Longest: true},
		{MaxSlices: whole / 2, Format: FormatNamed("chrome")},
	} {
		out := filepath.Join(t.TempDir(), "x")
		all := must.Get(Files([]Log{Path(path)}, out, o))(t)
		if got := all[0].Slices; got > o.MaxSlices || got < o.MaxSlices*6/10 && !o.Longest || got == 0 {
			t.Errorf("%+v: the trace has %d slices of %d", o, got, whole)
		}
		said := all[0].LeftOut.What
		text, err := os.ReadFile(out)
		if z, unzip := gzip.NewReader(bytes.NewReader(text)); err == nil && unzip == nil {
			text, err = io.ReadAll(z)
		}
		if err != nil || !strings.HasPrefix(said, "kept ") || !bytes.Contains(text, []byte("a part of the recording: "+said)) {
			t.Errorf("%+v: it says %q, and the trace does not: %v", o, said, err)
		}
	}
	o := TraceOptions{MaxSlices: whole}
	out := filepath.Join(t.TempDir(), "x")
	if all, err := Files([]Log{Path(path)}, out, o); err != nil || all[0].Slices != whole || all[0].LeftOut != nil {
		t.Errorf("everything fits, and it is %d slices of %d, left out is %+v: %v", all[0].Slices, whole, all[0].LeftOut, err)
	}
	out = filepath.Join(t.TempDir(), "y")
	if _, err := Files([]Log{Path(path)}, out, TraceOptions{MaxSlices: 1}); fmt.Sprint(err) != path+": no part of it fits into 1 slice" {
		t.Errorf("nothing fits: %v", err)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("nothing fits, and there is a file even so")
	}
}

// The longest slices are as many as were asked for: where many last the same, and where the trace also has slices
// without a length of their own. Those of ranks may be a few less. None that is left out lasts longer than one that is kept.
func TestMaxSlicesLongestProcessor(t *testing.T) {
	t.Parallel()
	launches := Path(launchesFile(t, 500))
	var equal strings.Builder
	equal.WriteString("function id=1 name=cuInit library=driver args=\"\"\nprocess pid=20 start=1000 exe=/tmp/app args=./app\n")
	for i := range 100 {
		fmt.Fprintf(&equal, "call pid=20 tid=20 func=cuInit enter=%d dur=%d ret=0 args:\n", 5000+i*1000, 500+i%2)
	}
	alike := Log{"alike", logtest.Assemble(t, equal.String())}
	var ranked []Log
	for _, l := range logtest.WriteRanks(t, logtest.Ranks{Hosts: 1, PerHost: 2, Steps: 10, NVTX: true, Straggler: -1}) {
		ranked = append(ranked, Log{fmt.Sprintf("rank%d", l.Rank), logtest.InMemory(l.Data)})
	}
	for _, given := range [][]Log{{launches}, {alike}, ranked, {Path("../testdata/gpu/logs/streams.cudatrace")}, {Path("../testdata/gpu/logs/nvtx.cudatrace")}} {
		path := filepath.Join(t.TempDir(), "whole")
		all := must.Get(Files(given, path, TraceOptions{}))(t)
		tr := tptest.Open(t, path)
		whole := all[0].Slices - uint64(tr.Int("select count(*) from slice where category in ('critical_path', 'step')"))
		for _, most := range []uint64{whole - 1, whole/3 + 1} {
			out := filepath.Join(t.TempDir(), "x")
			all, err := Files(given, out, TraceOptions{MaxSlices: most, Longest: true})
			if err != nil {
				t.Fatalf("%s, %d of %d slices: %v", given[0].Name, most, whole, err)
			}
			spare := uint64(0)
			if len(given) > 1 { // the kernel of a rank that waited comes with slices that show it
				spare = 3 + uint64(tr.Int("select count(*) from slice where category = 'rank'")) // many neighbours become one at once
			}
			if got := all[0].Slices; got > most || got < most-spare {
				t.Errorf("%s: %d slices of %d, want %d", given[0].Name, got, whole, most)
			}
		}
	}
	out := filepath.Join(t.TempDir(), "x.pftrace")
	must.Get(Files([]Log{alike}, out, TraceOptions{MaxSlices: 75, Longest: true}))(t)
	tr := tptest.Open(t, out)
	if long, short := tr.Int("select count(*) from slice where dur = 501"), tr.Int("select count(*) from slice where dur = 500"); long != 50 || short < 20 {
		t.Errorf("kept are %d of the longer ones, %d of the others", long, short)
	}
}

// TestMaxSlicesOfShort bounds the slices of a short program, whose calls lie in a ten-thousandth of its recording. What
// fits is never less than half of the bound, nor a part without any call.
func TestMaxSlicesOfShort(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("clock monotonic=1000 realtime=1 boottime=1\nfunction id=1 name=cuInit library=driver args=\"\"\nprocess pid=20 start=1000 exe=/tmp/app args=./app\n")
	const calls, first = 20, 1_000_000_000
	for i := range calls {
		fmt.Fprintf(&text, "call pid=20 tid=20 func=cuInit enter=%d dur=500 ret=0 args:\n", first+i*5000)
	}
	text.WriteString("call pid=20 tid=20 func=cuInit enter=5000 dur=500 ret=0 args:\nend time=2000000000 complete=1\n")
	given := []Log{{"short", logtest.Assemble(t, text.String())}}
	notes := traceTo(t, given[0].Open, TraceOptions{}, io.Discard).Slices - calls - 1
	for most := uint64(2); most <= calls+1; most++ {
		all, err := Files(given, filepath.Join(t.TempDir(), "x"), TraceOptions{MaxSlices: most + notes})
		if err != nil {
			t.Fatalf("at most %d slices: %v", most, err)
		}
		if got := all[0].Slices - notes; got > most || got < most/2 || got == 0 {
			t.Errorf("%d slices where %d fit", got, most)
		}
	}
}

// TestKeepWithinFilter holds what a number of slices leaves in against what the filter asks for.
func TestKeepWithinFilter(t *testing.T) {
	t.Parallel()
	ends := &endings{end: 1e6, width: 1000}
	for at := range uint64(1000) {
		ends.add(at * 1000)
	}
	for _, c := range []struct {
		filter    Filter
		n         uint64
		from, off time.Duration // off: a bucket
	}{{Filter{}, 1000, 0, 0}, {Filter{}, 500, 500e3, 1000}, {Filter{From: 700e3}, 500, 700e3, 0}, {Filter{From: 300e3}, 500, 500e3, 1000}} {
		o, kept := (&surveyed{ends: ends}).keep(TraceOptions{Options: Options{Filter: c.filter}}, c.n)
		if d := o.Filter.From - c.from; d < 0 || d > c.off || !strings.HasPrefix(kept, "kept the newest ") {
			t.Errorf("%+v: from %d, %q; want %d", c, o.Filter.From, kept, c.from)
		}
	}
	s := &surveyed{}
	for range 100 {
		s.lengths.Add(4096)
	}
	o, kept := s.keep(TraceOptions{}, 50)
	if o.Filter.MinDuration != 4096 || kept != "kept what lasts 4.096µs and longer (of the 100 shortest the first 50)" {
		t.Errorf("%s, %q", o.Filter.MinDuration, kept)
	}
}
