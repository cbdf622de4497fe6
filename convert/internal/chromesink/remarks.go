package chromesink

import (
	"fmt"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// pidBits is the number of bits of a PID on its host. A timeline of several logs may add to it.
const pidBits = 22

// writeRemarks writes what a person should know: a remark on a process into that process's file,
// any other remark into all files.
func (s *Sink) writeRemarks() {
	for _, e := range s.remarks {
		pid := uint32(0)
		switch e := e.(type) {
		case *timeline.Loss:
			pid = e.PID
		case *timeline.Note:
			pid = e.PID
		}
		own := s.filesOf(pid)
		if len(own) == 0 {
			own = s.filesOf(0)
		}
		for _, f := range own {
			f.remark(e, pid)
		}
	}
}

// filesOf returns the files of the processes with a PID on their host; 0 is every process.
func (s *Sink) filesOf(pid uint32) (files []*file) {
	for _, p := range s.order {
		if p.file != nil && (pid == 0 || p.PID == pid || p.PID%(1<<pidBits) == pid) {
			files = append(files, p.file)
		}
	}
	return files
}

func (f *file) remark(e timeline.Event, pid uint32) {
	at, text := uint64(0), ""
	switch e := e.(type) {
	case *timeline.Loss:
		at, text = e.Time, fmt.Sprintf("%d records lost: %s", e.Count, e.Cause)
	case *timeline.Note:
		at, text = e.Time, e.Text
	}
	o := f.begin("i", "cudatrace", text, f.process.PID, f.process.PID, at)
	o.string("s", "p")
	o.begin("args")
	if l, ok := e.(*timeline.Loss); ok {
		o.string("cause", l.Cause)
		o.uint("count", l.Count)
		o.uint("from_ns", l.From)
		o.uint("to_ns", l.To)
	}
	if pid != 0 {
		o.uint("pid", uint64(pid))
	}
	f.endArgs(&o)
}
