package pfsink

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/perfetto"
	"github.com/cudatrace/cudatrace/record/figures"
)

// marks collect what the trace says about the program and the recording. They are written at the
// end, when the bounds of CUDA's activity are known: a mark never widens them.
type marks struct {
	first, last uint64 // bounds of CUDA's activity
	processes   []*timeline.Process
	failures    map[uint32]failure // the first one, by PID
	remarks     []remark
	overheads   []overhead
	costly      bool // some overheads were written
}

// A failure is a call that failed.
type failure struct {
	process       *timeline.Process
	name, error   string
	at            uint64
	meaning, from string
	tid           uint32
}

// A remark is a line for people on the "cudatrace" track.
type remark struct {
	at   uint64
	text string
	args []perfetto.Arg
}

func newMarks() marks {
	return marks{first: timeline.Never, failures: make(map[uint32]failure)}
}

// see widens the bounds of CUDA's activity.
func (m *marks) see(from, to uint64) {
	m.first, m.last = min(m.first, from), max(m.last, to)
}

// within moves a time into the bounds.
func (m *marks) within(at uint64) uint64 {
	if m.last == 0 {
		return at // there is no activity
	}
	return max(m.first, min(at, m.last))
}

func (m *marks) process(p *timeline.Process) { m.processes = append(m.processes, p) }

// failure notes a failed call, if none failed before it.
func (m *marks) failure(t *timeline.Thread, sl *timeline.Slice) {
	pid := t.Process.PID
	if f, known := m.failures[pid]; known && f.at <= sl.End {
		return
	}
	f := failure{
		process: t.Process, name: sl.Name, error: sl.ErrorName(), meaning: sl.ErrorMeaning(), at: sl.End, tid: t.TID,
	}
	if sl.Caller != nil {
		f.from = sl.Caller.Text()
	}
	m.failures[pid] = f
}

// loss notes a loss, at the end of the time in which it happened.
func (m *marks) loss(l *timeline.Loss) {
	m.remark(l.Time, l.PID, figures.Count(l.Count, "record", "records")+" lost: "+l.Cause,
		perfetto.String("cause", l.Cause),
		perfetto.Uint("count", l.Count),
		perfetto.Uint("from_ns", l.From),
		perfetto.Uint("to_ns", l.To))
}

func (m *marks) note(n *timeline.Note) { m.remark(n.Time, n.PID, n.Text) }

func (m *marks) remark(at uint64, pid uint32, text string, args ...perfetto.Arg) {
	if pid != 0 {
		args = append(args, perfetto.Uint("pid", uint64(pid)))
	}
	m.remarks = append(m.remarks, remark{at, text, args})
}

// nearness is the share of CUDA's time within which the start or the end of a program is marked
// at the edge of the trace. Farther ones would be a wrong time rather than a rounded one.
const nearness = 10

// near reports whether a time lies within the bounds or near them.
func (m *marks) near(at uint64) bool {
	slack := (m.last - m.first) / nearness
	return at != 0 && m.last != 0 && at+slack >= m.first && at <= timeline.End(m.last, slack)
}

// writeMarks writes the marks of each process, and the "cudatrace" track if there is something to
// say.
func (s *Sink) writeMarks() {
	m := &s.marks
	events := make(map[uint32]*perfetto.Track)
	mark := func(p *timeline.Process, at uint64, name string, args ...perfetto.Arg) {
		track := events[p.PID]
		if track == nil {
			track = s.w.Track(perfetto.TrackInfo{Name: "Program", PID: p.PID})
			events[p.PID] = track
		}
		if inside := m.within(at); inside != at {
			args = append(args, perfetto.Int("outside_ns", int64(at-inside)))
		}
		s.instant(track, m.within(at), name, "program", args)
	}
	for _, p := range m.processes {
		if m.near(p.Start) {
			mark(p, p.Start, "program starts", perfetto.String("command", command(p)),
				perfetto.Uint("parent_pid", uint64(p.PPID)))
		}
		if f, failed := m.failures[p.PID]; failed && f.process == p {
			mark(p, f.at, fmt.Sprintf("first failure: %s: %s", f.name, f.error), f.args()...)
		}
		if m.near(p.End) {
			name := "program ends"
			if p.Exit != "" {
				name += ": " + p.Exit
			}
			mark(p, p.End, name)
		}
	}
	s.writeRemarks()
}

func (f *failure) args() []perfetto.Arg {
	args := []perfetto.Arg{perfetto.String("error", f.error)}
	if f.meaning != "" {
		args = append(args, perfetto.String("meaning", f.meaning))
	}
	args = append(args, perfetto.Uint("tid", uint64(f.tid)))
	if f.from != "" {
		args = append(args, perfetto.Repeated("caller", f.from))
	}
	return args
}

func (s *Sink) writeRemarks() {
	if len(s.marks.remarks) == 0 {
		return
	}
	track := s.w.Track(perfetto.TrackInfo{Name: "cudatrace"})
	for _, r := range s.marks.remarks {
		s.instant(track, s.marks.within(r.at), r.text, "cudatrace", r.args)
	}
}

// command is the command line of a process. Arguments that a shell would take apart are quoted.
func command(p *timeline.Process) string {
	words := make([]string, len(p.Args))
	for i, a := range p.Args {
		words[i] = a
		if a == "" || strings.ContainsAny(a, " \t\n\"'\\$`*?;&|<>()") {
			words[i] = strconv.Quote(a)
		}
	}
	return strings.Join(words, " ")
}
