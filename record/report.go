package record

import (
	"fmt"
	"sync"

	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A report tells a person what they should know of a recording: in lines at once, in notes in
// the log, and in the reasons why the log is not complete.
type report struct {
	log     *tracelog.Writer
	say     func(line string)
	missing missing
}

// miss notes and says that something is not recorded. It says each text once.
func (r *report) miss(pid uint32, text string) {
	r.note(pid, tracelog.NoteWarning, text)
	if r.missing.add(text) {
		r.say(text)
	}
}

// remark notes and says something that takes nothing from the log.
func (r *report) remark(pid uint32, text string) {
	r.note(pid, tracelog.NoteInfo, text)
	r.say(text)
}

// note puts a note on a process into the log; pid is 0 for the whole recording.
func (r *report) note(pid, severity uint32, text string) {
	r.log.Add(&tracelog.Note{Time: host.Monotonic(), PID: pid, Severity: severity, Text: text})
}

// maxMissing bounds the list. Further reasons are counted.
const maxMissing = 20

// missing is the list of reasons why a log is not complete, each once.
type missing struct {
	mu    sync.Mutex
	told  map[string]bool
	texts []string
	more  int
}

// add adds a reason, and says whether the list has room for it and had it not yet.
func (m *missing) add(text string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.told[text] {
		return false
	}
	if len(m.texts) == maxMissing {
		m.more++
		return false
	}
	if m.told == nil {
		m.told = map[string]bool{}
	}
	m.told[text] = true
	m.texts = append(m.texts, text)
	return true
}

func (m *missing) list() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.more > 0 {
		return append(m.texts[:len(m.texts):len(m.texts)], fmt.Sprintf("and %d more reasons", m.more))
	}
	return m.texts
}
