package hostmetrics

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/metriclog"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// A process is a recorded process. Of its threads those that ran most lately are watched: among them are
// the threads that launch work.
type process struct {
	pid     uint32
	series  *metriclog.Series // nil before the second sample
	at      uint64            // time of the last sample
	last    usage
	threads []*thread
	ran     map[uint32]uint64 // how long each thread had run when the threads were chosen
	chosen  time.Time         // when that was
}

// A thread is a thread that is watched.
type thread struct {
	tid  uint32
	last procfs.Schedule
}

const (
	threadsMax  = 16              // that are watched
	choiceEvery = 2 * time.Second // between two choices
)

// usage is what a process has used since its start, but for wait.
type usage struct {
	cpu          uint64 // ns
	wait         uint64 // ns that the watched threads waited for a processor since the last sample
	minor, major uint64 // page faults
}

// read reads what the process has used; ok is false after its end.
func (p *process) read() (u usage, ok bool) {
	var t unix.Timespec
	if unix.ClockGettime(processClock(p.pid), &t) != nil {
		return u, false
	}
	u.cpu = uint64(t.Nano())
	if u.minor, u.major, ok = procfs.Faults(p.pid); !ok {
		return u, false
	}
	for _, t := range p.threads {
		if now, ok := procfs.ThreadSchedule(p.pid, t.tid); ok {
			u.wait += now.Waited - min(now.Waited, t.last.Waited)
			t.last = now
		}
	}
	if time.Since(p.chosen) >= choiceEvery {
		p.choose()
	}
	return u, true
}

// processClock is the kernel's clock of a process's processor time.
func processClock(pid uint32) int32 { return int32(^pid<<3 | 2) }

// choose chooses the threads to watch: those that ran most since the choice before.
func (p *process) choose() {
	p.chosen = time.Now()
	ran := map[uint32]uint64{}
	var all []candidate
	for tid := range procfs.Threads(p.pid) {
		if now, ok := procfs.ThreadSchedule(p.pid, tid); ok {
			ran[tid] = now.Ran
			all = append(all, candidate{thread{tid, now}, now.Ran - min(now.Ran, p.ran[tid])})
		}
	}
	p.ran = ran
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Or(cmp.Compare(b.ran, a.ran), cmp.Compare(a.tid, b.tid)) })
	p.threads = nil
	for _, c := range all[:min(len(all), threadsMax)] {
		p.threads = append(p.threads, &c.thread)
	}
}

// A candidate is a thread that may be watched, with the time that it ran.
type candidate struct {
	thread
	ran uint64
}
