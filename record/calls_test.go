package record

import "testing"

// A program that is attached to by PID may become a CUPTI client: its records were
// never ours, so nothing is said, and nothing that does not exist is asked.
func TestForeignClientOfAttachedProcess(t *testing.T) {
	said := 0
	r, cancel := newRecorder(Options{PIDs: []int{1}, Say: func(string) { said++ }})
	defer cancel()
	r.foreignClient(1, 0x1000)
	if said != 0 || len(r.missing.list()) != 0 {
		t.Errorf("%d lines were said, missing %q", said, r.missing.list())
	}
}
