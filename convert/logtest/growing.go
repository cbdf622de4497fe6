package logtest

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/logtext"
)

// A Growing is a log in memory that is still being written.
type Growing struct {
	bytes.Buffer
	t testing.TB
	w *tracelog.Writer
}

// NewGrowing returns a log without records.
func NewGrowing(t testing.TB) *Growing {
	t.Helper()
	return newGrowing(t, tracelog.Options{})
}

func newGrowing(t testing.TB, o tracelog.Options) *Growing {
	t.Helper()
	g := &Growing{t: t}
	w := must.Get(tracelog.NewWriter(&g.Buffer, o))(t)
	g.w = w
	return g
}

// Append adds the records of a text, in blocks of their own, and flushes them.
func (g *Growing) Append(text string) {
	g.t.Helper()
	must.Get(logtext.Assemble(strings.NewReader(text), g.w))(g.t)
	must.Do(g.t, g.w.Flush())
}

// Finish ends the log.
func (g *Growing) Finish(end tracelog.End) {
	g.t.Helper()
	must.Do(g.t, g.w.Close(end))
}

// Follow opens the log and follows it.
func (g *Growing) Follow() *tracelog.Reader {
	g.t.Helper()
	r := must.Get(tracelog.NewReader(g, g.Size(), "growing"))(g.t)
	must.Do(g.t, r.Follow())
	return r
}

// ReadAt reads the bytes that have been written.
func (g *Growing) ReadAt(b []byte, off int64) (int, error) {
	return bytes.NewReader(g.Bytes()).ReadAt(b, off)
}

// Size is the number of bytes that have been written.
func (g *Growing) Size() int64 { return int64(g.Len()) }

// Parts makes a log of several texts. Each text has blocks of its own, in the order of the
// texts. The End record is zero.
func Parts(t testing.TB, texts ...string) Opener {
	t.Helper()
	g := NewGrowing(t)
	for _, text := range texts {
		g.Append(text)
	}
	g.Finish(tracelog.End{})
	return InMemory(g.Bytes())
}
