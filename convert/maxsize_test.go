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
	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// launchesFile writes a log of launches.
func launchesFile(t testing.TB, launches int) string {
	t.Helper()
	var log bytes.Buffer
	logtest.WriteLaunches(t, &log, launches)
	path := filepath.Join(t.TempDir(), "launches.cudatrace")
	if err := os.WriteFile(path, log.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestMaxBytes bounds traces: the newest use most of their room, and all say what was kept.
// Of the longest, which last about as long as each other here, many fit or few.
func TestMaxBytes(t *testing.T) {
	t.Parallel()
	path := launchesFile(t, 5000)
	for _, o := range []TraceOptions{
		{Compress: output.Gzip}, {Compress: output.Gzip, Longest: true},
		{Compress: output.None}, {Compress: output.None, Longest: true},
	} {
		for _, share := range []float64{0.1, 0.5, 0.9} {
			t.Run(fmt.Sprintf("%s, longest %t, %g", o.Compress, o.Longest, share), func(t *testing.T) {
				t.Parallel()
				o := o
				whole := len(trace(t, Path(path).Open, o))
				o.MaxBytes = int64(share * float64(whole))
				out := filepath.Join(t.TempDir(), "x")
				all, err := Files([]Log{Path(path)}, out, o)
				if err != nil {
					t.Fatal(err)
				}
				info, err := os.Stat(out)
				if err != nil || info.Size() > o.MaxBytes || info.Size() < o.MaxBytes*6/10 && !o.Longest || info.Size() < o.MaxBytes/10 {
					t.Errorf("the trace has %d of %d bytes, %v", info.Size(), o.MaxBytes, err)
				}
				kept := "kept the newest "
				if o.Longest {
					kept = "kept what lasts "
				}
				if l := all[0].LeftOut; l == nil || !strings.HasPrefix(l.What, kept) || l.Records == 0 != o.Longest || l.Slices == 0 == o.Longest {
					t.Errorf("left out is %+v", l)
				}
			})
		}
	}
}

// TestMaxSlices bounds the number of slices, also together with the bytes, and the trace says what
// it keeps.
func TestMaxSlices(t *testing.T) {
	t.Parallel()
	path := launchesFile(t, 5000)
	whole := traceTo(t, Path(path).Open, TraceOptions{}, io.Discard).Slices
	for _, o := range []TraceOptions{
		{MaxSlices: whole / 10}, {MaxSlices: whole / 2}, {MaxSlices: whole / 2, MaxBytes: 1 << 40}, {MaxSlices: whole / 2, Longest: true},
		{MaxSlices: whole / 2, Format: FormatNamed("chrome")},
	} {
		out := filepath.Join(t.TempDir(), "x")
		all, err := Files([]Log{Path(path)}, out, o)
		if err != nil {
			t.Fatal(err)
		}
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
	o = TraceOptions{MaxSlices: 1, MaxBytes: 100_000}
	if _, err := Files([]Log{Path(path)}, out, o); fmt.Sprint(err) != path+": no part of it fits into 100000 bytes and 1 slice" {
		t.Errorf("nothing fits: %v", err)
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
		all, err := Files(given, path, TraceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		whole := all[0].Slices - uint64(tptest.Open(t, path).Int("select count(*) from slice where category = 'critical_path'"))
		for _, most := range []uint64{whole - 1, whole/3 + 1} {
			out := filepath.Join(t.TempDir(), "x")
			all, err := Files(given, out, TraceOptions{MaxSlices: most, Longest: true})
			if err != nil {
				t.Fatalf("%s, %d of %d slices: %v", given[0].Name, most, whole, err)
			}
			spare := uint64(0)
			if len(given) > 1 { // the kernel of a rank that waited comes with slices that show it
				spare = 3
			}
			if got := all[0].Slices; got > most || got < most-spare {
				t.Errorf("%s: %d slices of %d, want %d", given[0].Name, got, whole, most)
			}
		}
	}
	out := filepath.Join(t.TempDir(), "x.pftrace")
	if _, err := Files([]Log{alike}, out, TraceOptions{MaxSlices: 75, Longest: true}); err != nil {
		t.Fatal(err)
	}
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

// A bound that everything fits into changes nothing; one that nothing fits into makes no
// file.
func TestMaxBytesEnds(t *testing.T) {
	t.Parallel()
	path := launchesFile(t, 1000)
	for _, longest := range []bool{false, true} {
		o := TraceOptions{Longest: longest}
		whole := trace(t, Path(path).Open, o)
		o.MaxBytes = int64(len(whole))
		out := filepath.Join(t.TempDir(), "x")
		all, err := Files([]Log{Path(path)}, out, o)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, whole) || all[0].LeftOut != nil {
			t.Errorf("longest %t: %d bytes of %d, left out is %+v, %v", longest, len(got), len(whole), all[0].LeftOut, err)
		}
		o.MaxBytes = 100
		out = filepath.Join(t.TempDir(), "y")
		_, err = Files([]Log{Path(path)}, out, o)
		if want := path + ": no part of it fits into 100 bytes"; fmt.Sprint(err) != want {
			t.Errorf("longest %t: the error is %v, want %s", longest, err, want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("longest %t: there is a file even so", longest)
		}
	}
}

// surveyOf returns what is known of blocks of 100 records each, from and to times.
func surveyOf(times ...[2]uint64) *surveyed {
	s := &surveyed{}
	for _, x := range times {
		s.blocks = append(s.blocks, tracelog.IndexEntry{Rows: 100, From: x[0], To: x[1]})
		s.records += 100
		s.end = max(s.end, x[1])
	}
	return s
}

// The records of a block are taken to lie evenly in its time.
func TestSince(t *testing.T) {
	t.Parallel()
	even := surveyOf([2]uint64{0, 1000}, [2]uint64{1000, 2000})
	burst := surveyOf([2]uint64{0, 1000}, [2]uint64{600, 600}, [2]uint64{1000, 2000})
	for i, c := range []struct {
		s     *surveyed
		share float64
		want  uint64
	}{{even, 1, 0}, {even, 0.5, 1000}, {even, 0.25, 1500}, {even, 0.75, 500}, {even, 0, 2000}, {burst, 0.5, 601}, {burst, 0.9, 300}} {
		if got := c.s.since(c.share); got != c.want {
			t.Errorf("case %d: a share of %g lies behind %d, want %d", i, c.share, got, c.want)
		}
	}
}

// A block counts as far as it lies in the span that is asked for.
func TestClip(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		block, span, want [2]uint64 // into the recording, which begins at 1000
		rows              uint64
		ok                bool
	}{
		{[2]uint64{1000, 2000}, [2]uint64{0, 5000}, [2]uint64{0, 1000}, 100, true},
		{[2]uint64{1000, 2000}, [2]uint64{250, 5000}, [2]uint64{250, 1000}, 75, true},
		{[2]uint64{1000, 2000}, [2]uint64{0, 100}, [2]uint64{0, 100}, 10, true},
		{[2]uint64{1000, 2000}, [2]uint64{1000, 5000}, [2]uint64{1000, 1000}, 1, true},
		{[2]uint64{1500, 1500}, [2]uint64{500, 500}, [2]uint64{500, 500}, 100, true},
		{[2]uint64{500, 1500}, [2]uint64{0, 500}, [2]uint64{0, 500}, 100, true}, // it begins before the recording
		{block: [2]uint64{1000, 2000}, span: [2]uint64{1001, 5000}},
		{block: [2]uint64{3000, 4000}, span: [2]uint64{0, 1999}},
	} {
		b, ok := clip(tracelog.IndexEntry{Rows: 100, From: c.block[0], To: c.block[1]}, 1000, c.span[0], c.span[1])
		if ok != c.ok || ok && (b.From != c.want[0] || b.To != c.want[1] || b.Rows != c.rows) {
			t.Errorf("case %d: %+v, %t; want %v with %d records, %t", i, b, ok, c.want, c.rows, c.ok)
		}
	}
}

// What a size leaves in is within what the filter asks for.
func TestLimitWithinFilter(t *testing.T) {
	t.Parallel()
	s := surveyOf([2]uint64{0, 1e6})
	for _, c := range []struct {
		filter Filter
		share  float64
		from   time.Duration
		kept   string
	}{
		{Filter{}, 1, 0, ""},
		{Filter{}, 0.5, 500e3, "kept the newest 500µs"},
		{Filter{From: 300e3}, 0.5, 500e3, "kept the newest 500µs"},
	} {
		o, kept := s.limit(TraceOptions{Options: Options{Filter: c.filter}}, c.share)
		if o.Filter.From != c.from || kept != c.kept {
			t.Errorf("%+v: from %d, %q; want %d, %q", c, o.Filter.From, kept, c.from, c.kept)
		}
	}
	s = &surveyed{longest: true, records: 100}
	for range 100 {
		s.lengths.Add(4096)
	}
	o, kept := s.limit(TraceOptions{}, 0.5)
	if o.Filter.MinDuration != 4096 || kept != "kept what lasts 4.096µs and longer (of the 100 shortest the first 50)" {
		t.Errorf("%s, %q", o.Filter.MinDuration, kept)
	}
}
