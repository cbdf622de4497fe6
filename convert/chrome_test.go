package convert

import (
	"bufio"
	"fmt"
	"io"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A chromeSink writes a timeline in the JSON form of chrome://tracing, to hold its size
// and cost against. Times are microseconds, as that form has it.
type chromeSink struct {
	w     *bufio.Writer
	names timeline.KernelNames
}

func us(ns uint64) string { return fmt.Sprintf("%d.%03d", ns/1000, ns%1000) }

func (s *chromeSink) Take(events []timeline.Event) error {
	for _, e := range events {
		switch e := e.(type) {
		case *timeline.Slices:
			for i := range e.List {
				s.slice(e.Thread, &e.List[i])
			}
		case *timeline.WorkList:
			for i := range e.List {
				s.work(e.Stream, &e.List[i])
			}
		}
	}
	return nil
}

func (s *chromeSink) End(error) error { return s.w.Flush() }

func (s *chromeSink) slice(t *timeline.Thread, sl *timeline.Slice) {
	fmt.Fprintf(s.w, `{"ph":"X","cat":%q,"name":%q,"pid":%d,"tid":%d,"ts":%s,"dur":%s,"args":{"correlation":%d`,
		sl.Library, sl.Name, t.Process.PID, t.TID, us(sl.Start), us(sl.End-sl.Start), sl.Correlation)
	for i, v := range sl.Args {
		if i < len(sl.Params) {
			fmt.Fprintf(s.w, `,%q:%d`, sl.Params[i].Name, v)
		}
	}
	s.w.WriteString("}},\n")
	for _, id := range sl.Work() {
		fmt.Fprintf(s.w, `{"ph":"s","id":%d,"pid":%d,"tid":%d,"ts":%s,"cat":"ac2g","name":"ac2g"},`+"\n", id, t.Process.PID, t.TID, us(sl.Start))
	}
}

func (s *chromeSink) work(q *timeline.Stream, w *timeline.Work) {
	k := &w.Shape.Kernel
	fmt.Fprintf(s.w, `{"ph":"X","cat":"kernel","name":%q,"pid":%d,"tid":%d,"ts":%s,"dur":%s,"args":{"device":%d,"context":%d,"stream":%d,"correlation":%d,"registers per thread":%d,"shared memory":%d,"grid":[%d,%d,%d],"block":[%d,%d,%d]}},`+"\n",
		s.names.Title(w), q.Context.Device, q.ID, us(w.Start), us(w.Dur), q.Context.Device, q.Context.ID, q.ID, w.Correlation,
		k.Registers, k.StaticShared+k.DynamicShared, k.Grid[0], k.Grid[1], k.Grid[2], k.Block[0], k.Block[1], k.Block[2])
	fmt.Fprintf(s.w, `{"ph":"f","bp":"e","id":%d,"pid":%d,"tid":%d,"ts":%s,"cat":"ac2g","name":"ac2g"},`+"\n", w.ID, q.Context.Device, q.ID, us(w.Start))
}

func chromeTo(tb testing.TB, open logtest.Opener, w io.Writer) {
	tb.Helper()
	s := &chromeSink{w: bufio.NewWriterSize(w, 1<<16), names: make(timeline.KernelNames)}
	s.w.WriteString(`{"traceEvents":[` + "\n")
	build(tb, open, s)
	s.w.WriteString("{}]}\n")
	if err := s.w.Flush(); err != nil {
		tb.Fatal(err)
	}
}
