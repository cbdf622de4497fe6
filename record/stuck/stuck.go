package stuck

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/cudatrace/cudatrace/record/procfs"
)

// An Outcome is the short form of a verdict.
type Outcome string

// The outcomes.
const (
	Stuck   Outcome = "stuck"   // something waits for what will not come by itself
	Moving  Outcome = "moving"  // healthy: threads go on
	Waiting Outcome = "waiting" // healthy as far as can be seen: it waits for input, for time, or for others who go on
	Unknown Outcome = "unknown" // the process could not be read
)

// A Verdict says what a process waits for.
type Verdict struct {
	Outcome Outcome `json:"outcome"` // `stuck`, `moving`, `waiting` or `unknown`
	Text    string  `json:"text"`
	TID     uint32  `json:"tid,omitempty"` // thread that it begins with
}

// A Frame is a Python frame.
type Frame struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
	Function string `json:"function"`
}

// A Thread is what was seen of a thread. What it waits for is that of the second look.
type Thread struct {
	TID     uint32  `json:"tid"`
	Name    string  `json:"name"`
	State   string  `json:"state"`             // running, sleeping, uninterruptible, stopped, traced
	Channel string  `json:"channel,omitempty"` // function of the kernel in which it sleeps
	Call    string  `json:"call,omitempty"`    // system call, or "page fault"
	On      string  `json:"on,omitempty"`      // kinds of file that the call waits for, or lock, GIL, thread
	Holder  uint32  `json:"holder,omitempty"`  // thread that has it
	CUDA    *Call   `json:"cuda,omitempty"`    // call of CUDA that it is in, where the process is recorded
	Library string  `json:"library,omitempty"` // file of the instruction at which it goes on
	Python  []Frame `json:"python,omitempty"`  // the innermost first
	Moved   string  `json:"moved,omitempty"`   // what was different at the second look; empty: nothing
	Ran     float64 `json:"ran"`               // share of the time between the looks that it had a processor
	Woken   uint64  `json:"woken"`             // how often it gave up a processor between the looks, or lost it

	before, seen view
}

// A Call is a call of CUDA that has not returned for a second or more.
type Call struct {
	Name  string  `json:"name"`
	Since float64 `json:"since_s"`
	Waits bool    `json:"waits"` // for GPU work
}

// A Gone is a process that a process has started, that has ended, and that it has not waited for.
type Gone struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
	How  string `json:"how"` // "killed by SIGKILL", "exit code 1", "" if unknown
	bad  bool   // not by exit code 0
}

// A Recorded is what a recording of a process knows of its GPU work.
type Recorded struct {
	Log         string       `json:"log"`
	GPU         bool         `json:"gpu_work"` // is recorded
	Streams     []Stream     `json:"streams,omitempty"`
	Unrun       string       `json:"unrun_kernel,omitempty"` // the kernel that was looked up last, if it has not run
	Collectives []Collective `json:"collectives,omitempty"`

	Calls map[uint32]*Call `json:"-"` // by thread, which shows it
}

// A Stream is a stream, and the work on it that was launched first of what has not ended; without such work, what ended
// last.
type Stream struct {
	Name   string  `json:"name"`
	Work   string  `json:"work"`
	Ended  bool    `json:"ended"`
	Since  float64 `json:"since_s"` // since its end, or since its launch
	Queued int     `json:"queued"`  // launches behind it
}

// A Collective is the newest call of NCCL of a communicator.
type Collective struct {
	Communicator string  `json:"communicator"` // its hash, the same on all ranks
	Name         string  `json:"name"`         // function of NCCL
	Count        uint64  `json:"count"`        // calls of that communicator, this one included
	Since        float64 `json:"since_s"`
	TID          uint32  `json:"tid"`
}

// A ProcessReport is what was seen of a process.
type ProcessReport struct {
	PID      int       `json:"pid"`
	Program  string    `json:"program"`         // with its arguments
	Rank     *uint32   `json:"rank,omitempty"`  // in a distributed program, as its environment has it
	World    uint32    `json:"world,omitempty"` // ranks of that, 0 if unknown
	Verdict  Verdict   `json:"verdict"`
	Threads  []Thread  `json:"threads"`
	LeftOut  int       `json:"threads_left_out,omitempty"`
	Gone     []Gone    `json:"gone,omitempty"`
	Recorded *Recorded `json:"recorded,omitempty"` // by a recording that runs; without one nothing is known of the GPU
	Notes    []string  `json:"notes,omitempty"`    // what could not be read
	named    bool      // by the person; else it was looked at since one of these waits for it
	children []int
}

// A Report is what was seen of some processes.
type Report struct {
	Version   int             `json:"version"`
	Stuck     int             `json:"stuck"` // the same number, by which `stuck FILE` knows its files
	Host      string          `json:"host"`
	Taken     uint64          `json:"taken_unix_ns"` // the second look
	Apart     uint64          `json:"apart_ns"`      // time between the looks
	Processes []ProcessReport `json:"processes"`
	Notes     []string        `json:"notes,omitempty"` // which recordings could not be read
}

// Bounds of a report.
const (
	apart       = time.Second
	othersMost  = 64 // processes that are looked at because others wait for them
	threadsMost = 1 << 14
)

// Look looks at processes. recorded returns what recordings that run know of them, and what it could not read; it is
// called meanwhile, and nil knows nothing. An error is a sentence for a person, and says that a process cannot be
// looked at.
func Look(pids []int, recorded func(pids []int) (map[int]*Recorded, []string)) (*Report, error) {
	slices.Sort(pids)
	pids = slices.Compact(pids)
	g := newGroup()
	for _, pid := range pids {
		p, err := g.begin(pid)
		if err != nil {
			return nil, err
		}
		p.named = true
	}
	for n := 0; n < othersMost; { // those that they wait for, and so on
		more := g.others()
		if len(more) == 0 {
			break
		}
		for _, pid := range more {
			if n++; n > othersMost {
				break
			}
			_, _ = g.begin(pid) // one that may not be read is named only
		}
	}
	type answer struct {
		known map[int]*Recorded
		notes []string
	}
	read := make(chan answer, 1)
	go func() {
		var a answer
		if recorded != nil {
			a.known, a.notes = recorded(pids)
		}
		read <- a
	}()
	began := time.Now()
	time.Sleep(apart)
	for _, l := range g.looks {
		l.again()
	}
	r := &Report{Version: version, Stuck: version, Taken: uint64(time.Now().UnixNano()), Apart: uint64(time.Since(began))}
	r.Host, _ = os.Hostname() // every Linux has one
	a := <-read
	for _, l := range g.looks {
		l.know(a.known[l.PID])
	}
	r.Notes = a.notes
	g.judge()
	for _, pid := range pids {
		r.Processes = append(r.Processes, g.looks[pid].ProcessReport)
	}
	rank := map[Outcome]int{Stuck: 0, Unknown: 1, Waiting: 2, Moving: 3}
	slices.SortStableFunc(r.Processes, func(a, b ProcessReport) int {
		return cmp.Compare(rank[a.Verdict.Outcome], rank[b.Verdict.Outcome])
	})
	return r, nil
}

// explainAccess makes an error about a process one sentence for a person.
func explainAccess(pid int, err error) error {
	switch _, running := procfs.StatOf(pid); {
	case !running:
		return fmt.Errorf("there is no process %d", pid)
	case errors.Is(err, fs.ErrPermission):
		return errors.New(procfs.Forbidden(pid))
	}
	return fmt.Errorf("process %d: %w", pid, err)
}
