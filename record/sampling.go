package record

import (
	"strconv"

	"github.com/cudatrace/cudatrace/record/internal/pyframes"
	"github.com/cudatrace/cudatrace/record/internal/threads"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// SampleRate is the default rate of samples, in Hz.
const SampleRate = threads.RateDefault

// CheckSampleRate returns why there can be no samples of a rate.
func CheckSampleRate(rate int) error { return threads.CheckRate(rate) }

// startThreads starts to record what threads do, none so far.
func (s *session) startThreads() {
	if s.opts.SampleRate == 0 {
		return
	}
	s.threads = threads.Start(threads.Options{
		Log: s.log.Writer, Rate: s.opts.SampleRate, Python: s.opts.Python == PythonAuto,
		Stack: func(parent uint32, f tracelog.PythonFrame) (uint32, bool) {
			return s.pythons.Stack(s.records(), parent, f)
		},
		Note:   func(text string) { s.report.note(0, tracelog.NoteInfo, text) },
		Remark: func(text string) { s.report.remark(0, text) },
	})
	s.log.Add(&tracelog.Meta{Key: tracelog.MetaSampleRate, Value: strconv.Itoa(s.opts.SampleRate)})
	s.threads.Pause(s.opts.Delay > 0)
	s.calls.threads = s.threads
}

// beginThreads records what the first thread of a process does, and each that makes a call. python is what is known of
// its interpreter, nil for nothing.
func (s *session) beginThreads(pid uint32, python *python) {
	if s.threads == nil {
		return
	}
	var in *pyframes.Interpreter
	if python != nil {
		in = python.found
	}
	s.threads.Begin(pid, in)
}

// endThreads writes the last records of threads. A second call does nothing.
func (s *session) endThreads() {
	if s.threads != nil {
		s.threads.End()
	}
}
