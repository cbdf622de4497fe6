package read

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// eventLine is an event of some kind in the text form.
func eventLine(kind string, at uint64) string {
	switch kind {
	case "call":
		return fmt.Sprintf("call pid=1 tid=1 func=#1 enter=%d\n", at)
	case "api":
		return fmt.Sprintf("api pid=1 tid=1 domain=1 name=f start=%d\n", at)
	case "marker", "memory":
		return fmt.Sprintf("%s pid=1 time=%d\n", kind, at)
	}
	return fmt.Sprintf("%s pid=1 start=%d\n", kind, at)
}

// partsOf makes a part of a log of each word, "call@100" for an event of a time.
func partsOf(t testing.TB, words string) (parts []string) {
	for _, word := range strings.Fields(words) {
		kind, at, _ := strings.Cut(word, "@")
		n := must.Get(strconv.ParseUint(at, 10, 64))(t)
		parts = append(parts, eventLine(kind, n))
	}
	return parts
}

func openReaders(t testing.TB, open logtest.Opener, filter *tracelog.Filter) *Readers {
	t.Helper()
	rs := must.Get(OpenReaders(open, numbered(t, open).Contents, filter))(t)
	t.Cleanup(rs.Close)
	return rs
}

// order returns the blocks that readers give, as in partsOf.
func order(rs *Readers) string {
	var words []string
	for r := rs.Next(); r != nil; r = rs.Next() {
		starts := r.Block().Column(PlacementOf(r.Block().Kind).Start)
		words = append(words, fmt.Sprintf("%v@%d", r.Block().Kind, starts.At(0)))
	}
	return strings.Join(words, " ")
}

// Calls, API records, GPU work and all others are read side by side: next comes a block of
// those of which the least time has been read.
func TestReadersOrder(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, log, want string }{
		{"no events", "", ""},
		{"one kind, in the order of the file", "call@300 call@100 call@200", "call@300 call@100 call@200"},
		{"kinds that stand far apart", "call@100 call@200 call@300 api@110 api@210 api@310 kernel@120 kernel@220 kernel@320",
			"call@100 api@110 kernel@120 call@200 api@210 kernel@220 call@300 api@310 kernel@320"},
		{"kinds of work are read as one", "kernel@100 memcpy@900 memset@200 kernel@300 call@500 call@950",
			"call@500 kernel@100 memcpy@900 call@950 memset@200 kernel@300"},
		{"all other kinds are read as one", "memory@100 overhead@900 marker@200 memory@300 call@500 call@950",
			"call@500 memory@100 overhead@900 call@950 marker@200 memory@300"},
		{"a time that is late in its kind", "call@900 call@100 call@950 api@800 api@850 api@990", "call@900 api@800 api@850 api@990 call@100 call@950"},
		{"the latest time does not end its kind", "call@9223372036854775807 call@5 api@7", "call@9223372036854775807 api@7 call@5"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := order(openReaders(t, logtest.Parts(t, partsOf(t, test.log)...), nil)); got != test.want {
				t.Errorf("the blocks come as\n%s, want\n%s", got, test.want)
			}
		})
	}
}

// The log is opened once for each group of kinds that it has.
func TestReadersOpen(t *testing.T) {
	t.Parallel()
	for log, want := range map[string]int{
		"": 0, "call@1": 1, "kernel@1 memset@1": 1, "memset@1 call@1": 2, "call@1 api@1 memcpy@1 memory@1 marker@1": 4,
	} {
		open := logtest.Parts(t, partsOf(t, log)...)
		n := 0
		rs := openReaders(t, func() (*tracelog.Reader, error) { n++; return open() }, nil)
		if n -= 1; n != want || len(rs.list) != want { // once by the catalog
			t.Errorf("%q is opened %d times, want %d", log, n, want)
		}
	}
}

// Where the log can't be opened again, the readers that were opened are closed.
func TestReadersOpenFails(t *testing.T) {
	t.Parallel()
	open := logtest.Parts(t, partsOf(t, "call@1 api@1")...)
	contents := numbered(t, open).Contents
	failed := errors.New("too many files")
	var first *tracelog.Reader
	_, err := OpenReaders(func() (*tracelog.Reader, error) {
		if first != nil {
			return nil, failed
		}
		var err error
		first, err = open()
		return first, err
	}, contents, nil)
	if !errors.Is(err, failed) || first.Next() {
		t.Errorf("the error is %v", err)
	}
	begun := func() (*tracelog.Reader, error) {
		r, err := open()
		first = r
		first.Next() // too late for Reread
		return r, err
	}
	if _, err := OpenReaders(begun, contents, nil); err == nil || first.Next() {
		t.Errorf("the error is %v", err)
	}
}

// A filter's blocks are read; which kinds are read does not depend on it.
func TestReadersFilter(t *testing.T) {
	t.Parallel()
	open := logtest.Parts(t, partsOf(t, "call@100 call@200 call@300 kernel@110 kernel@210 kernel@310")...)
	filter := &tracelog.Filter{From: 150, To: 250}
	if got := order(openReaders(t, open, filter)); got != "call@200 kernel@210" {
		t.Errorf("the blocks are %s", got)
	}
	goldentest.Same(t, &tracelog.Filter{From: 150, To: 250}, filter, "the filter has changed")
}

// The share is that of the time with which all readers are through.
func TestReadersShare(t *testing.T) {
	t.Parallel()
	rs := openReaders(t, logtest.Parts(t, partsOf(t, "call@1100 call@1500 call@1900 kernel@1300 kernel@2000")...), nil)
	shares := []float64{rs.Share(1000, 2000)}
	for rs.Next() != nil {
		shares = append(shares, rs.Share(1000, 2000))
	}
	shares = append(shares, rs.Share(1000, 2000))
	want := []float64{0, 0, 0.1, 0.3, 0.5, 0.9, 1} // calls, kernels, calls, kernels, calls; the end of both
	goldentest.Same(t, want, shares, "shares")
	if rs.Share(0, 0) != 0 || rs.Share(5, 4) != 0 {
		t.Errorf("of no time the shares are %g and %g", rs.Share(0, 0), rs.Share(5, 4))
	}
}

// A failing file has a size that it can't be read up to.
type failingFile struct {
	*bytes.Reader
	most int64
}

var errFile = errors.New("the disk is gone")

func (f failingFile) ReadAt(b []byte, off int64) (int, error) {
	if off+int64(len(b)) > f.most && off < f.most+200 {
		return 0, errFile
	}
	return f.Reader.ReadAt(b, off)
}

// A log that has changed since its first reading, or that can't be read, is an error.
func TestReadersErr(t *testing.T) {
	t.Parallel()
	g := logtest.NewGrowing(t)
	g.Append(eventLine("call", 100))
	g.Append(eventLine("kernel", 100))
	from := g.Len()
	g.Append(eventLine("kernel", 200))
	g.Append(eventLine("call", 300))
	g.Finish(tracelog.End{Time: 400})
	contents := numbered(t, logtest.InMemory(g.Bytes())).Contents
	log := bytes.Clone(g.Bytes())
	log[from+26] = 0 // rows, of which a block has some
	rs := must.Get(OpenReaders(logtest.InMemory(logtest.Mended(log)), contents, nil))(t)
	for rs.Next() != nil {
	}
	if rs.Err() == nil || rs.Err().Error() != "test was changed while it was read" {
		t.Errorf("the error is %v", rs.Err())
	}
	rs = must.Get(OpenReaders(func() (*tracelog.Reader, error) {
		return tracelog.NewReader(failingFile{bytes.NewReader(g.Bytes()), int64(from)}, int64(g.Len()), "test")
	}, contents, nil))(t)
	for rs.Next() != nil {
	}
	if !errors.Is(rs.Err(), errFile) {
		t.Errorf("the error is %v", rs.Err())
	}
}
