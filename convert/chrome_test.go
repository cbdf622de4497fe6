package convert

import (
	"bufio"
	"fmt"
	"io"
	"testing"
)

// chromeSink writes a timeline in the JSON form of chrome://tracing, to hold its size
// and cost against. Times are microseconds, as that form has it.
type chromeSink struct {
	noSink
	w      *bufio.Writer
	thread *Thread
	queue  *Queue
}

func us(ns uint64) string { return fmt.Sprintf("%d.%03d", ns/1000, ns%1000) }

func (s *chromeSink) Thread(t *Thread) { s.thread = t }

func (s *chromeSink) Begin(sl *Slice) {
	fmt.Fprintf(s.w, `{"ph":"X","cat":%q,"name":%q,"pid":%d,"tid":%d,"ts":%s,"dur":%s,"args":{"correlation":%d`,
		sl.Category, sl.Name, s.thread.PID, s.thread.TID, us(sl.Start), us(sl.End-sl.Start), sl.Correlation)
	for i, v := range sl.Args {
		if i < len(sl.ArgNames) {
			fmt.Fprintf(s.w, `,%q:%d`, sl.ArgNames[i].name, v)
		}
	}
	s.w.WriteString("}},\n")
	for _, id := range sl.Work() {
		fmt.Fprintf(s.w, `{"ph":"s","id":%d,"pid":%d,"tid":%d,"ts":%s,"cat":"ac2g","name":"ac2g"},`+"\n", id, s.thread.PID, s.thread.TID, us(sl.Start))
	}
}

func (s *chromeSink) Queue(q *Queue) { s.queue = q }

func (s *chromeSink) Work(w *Work) {
	k := &w.Shape.Kernel
	fmt.Fprintf(s.w, `{"ph":"X","cat":"kernel","name":%q,"pid":%d,"tid":%d,"ts":%s,"dur":%s,"args":{"device":%d,"context":%d,"stream":%d,"correlation":%d,"registers per thread":%d,"shared memory":%d,"grid":[%d,%d,%d],"block":[%d,%d,%d]}},`+"\n",
		workName(w), s.queue.Device, s.queue.Stream, us(w.Start), us(w.Dur), s.queue.Device, s.queue.Context, s.queue.Stream, w.Correlation,
		k.Registers, k.StaticShared+k.DynamicShared, k.Grid[0], k.Grid[1], k.Grid[2], k.Block[0], k.Block[1], k.Block[2])
	fmt.Fprintf(s.w, `{"ph":"f","bp":"e","id":%d,"pid":%d,"tid":%d,"ts":%s,"cat":"ac2g","name":"ac2g"},`+"\n", w.ID, s.queue.Device, s.queue.Stream, us(w.Start))
}

func chromeTo(tb testing.TB, open opener, w io.Writer) {
	tb.Helper()
	s := &chromeSink{w: bufio.NewWriterSize(w, 1<<16)}
	s.w.WriteString(`{"traceEvents":[` + "\n")
	build(tb, open, s)
	s.w.WriteString("{}]}\n")
	if err := s.w.Flush(); err != nil {
		tb.Fatal(err)
	}
}
