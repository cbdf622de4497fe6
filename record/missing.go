package record

import (
	"fmt"
	"sync"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// maxMissing bounds the list of what is missing; what comes after is counted.
const maxMissing = 20

// missing collects, once each, the reasons why a log is not complete.
type missing struct {
	mu    sync.Mutex
	told  map[string]bool
	texts []string
	more  int
}

// add says whether the text is new.
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

// miss notes that something is not recorded, and says so once.
func (r *recorder) miss(pid uint32, text string) {
	r.log.Add(&tracelog.Note{Time: now(), PID: pid, Severity: tracelog.NoteWarning, Text: text})
	if r.missing.add(text) {
		r.opts.Say(text)
	}
}

// remark notes something that a person should know and that leaves nothing out.
func (r *recorder) remark(pid uint32, text string) {
	r.log.Add(&tracelog.Note{Time: now(), PID: pid, Severity: tracelog.NoteInfo, Text: text})
	r.opts.Say(text)
}
