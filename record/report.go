package record

import (
	"sync"

	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A report tells a person about problems of a recording: at once in lines, in the log as notes,
// and at the log's end as the reasons why the log is not complete.
type report struct {
	log     *tracelog.Writer
	say     func(line string)
	missing missing
	said    sync.Map // what sayOnce has said something about
}

// miss reports that something is missing from the log. It says each text once.
func (r *report) miss(pid uint32, text string) {
	r.note(pid, tracelog.NoteWarning, text)
	if r.missing.addReason(text) {
		r.say(text)
	}
}

// sayOnce says one text about each thing.
func (r *report) sayOnce(about, text string) {
	if _, known := r.said.LoadOrStore(about, true); !known {
		r.say(text)
	}
}

// remark reports something that leaves the log complete.
func (r *report) remark(pid uint32, text string) {
	r.note(pid, tracelog.NoteInfo, text)
	r.say(text)
}

// note adds a note about a process to the log; pid is 0 for the whole recording.
func (r *report) note(pid, severity uint32, text string) {
	r.log.Add(&tracelog.Note{Time: host.Monotonic(), PID: pid, Severity: severity, Text: text})
}

// maxMissing is the most reasons that are listed. Further ones are counted.
const maxMissing = 20

// missing lists the reasons why a log is not complete, each once.
type missing struct {
	mu    sync.Mutex
	told  map[string]bool
	texts []string
	more  int
}

// addReason adds a reason. It returns false if the list has the reason or is full.
func (m *missing) addReason(text string) bool {
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
		return append(m.texts[:len(m.texts):len(m.texts)], "and "+figures.Count(m.more, "more reason", "more reasons"))
	}
	return m.texts
}
