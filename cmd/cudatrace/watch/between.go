package watch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cudatrace/cudatrace/convert/prometheus"
	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/figures"
)

// A GPU is what NVML says of a GPU.
type GPU struct {
	UUID string
	Busy float64 // mean since the look before, 0 to 1; NaN if it is not known
	PIDs []int   // processes with a context there

	Unseen bool // nothing more is known of it: whoever is not seen elsewhere may use it
}

// The families of what is seen between windows, and in them.
var (
	busyNow = &prometheus.Family{
		Name: "cudatrace_watch_gpu_busy_ratio", Help: "utilization of a GPU of the program's, by NVML", Labels: "uuid",
	}
	threadsNow = &prometheus.Family{
		Name: "cudatrace_watch_threads", Help: "threads of the program's processes, by state", Labels: "state",
	}
	stuckNow = &prometheus.Family{
		Name: "cudatrace_watch_stuck_processes", Help: "processes that are stuck, as 'cudatrace stuck' says",
	}
)

// between is what is seen of a job from outside, without CUPTI and probes.
type between struct {
	gpus    []GPU
	threads map[string]int // by state
	idle    uint64         // since when its GPUs are seen idle, ns of CLOCK_MONOTONIC; 0 while they are not
	quiet   uint64         // since when it stands still, likewise; 0 while it goes on
	what    string         // has stopped
	looked  uint64         // when its processes were looked at
	stuck   int            // processes
}

const (
	mostQuiet  = 30 * time.Second // after which processes are looked at
	lookAgain  = time.Minute
	stillSteps = 10   // times the time of a step without one is a standstill
	seldom     = 1000 // times what reading the states of all threads has taken passes before they are read again
)

// watchQuiet looks from outside at all jobs, and at the processes of those whose GPUs or steps stand still.
func (s *service) watchQuiet() {
	if len(s.jobs) == 0 {
		return
	}
	gpus, now := s.GPUs(), s.Monotonic()
	if now >= s.threadsAfter {
		for _, j := range s.jobs {
			j.threads = make(map[string]int)
			for _, p := range j.processes {
				for state, n := range s.Threads(p.PID) {
					j.threads[state] += n
				}
			}
		}
		s.threadsAfter = now + seldom*(s.Monotonic()-now)
	}
	after, due := uint64(min(mostQuiet, s.Every/2)), []*job(nil)
	for _, j := range s.jobs {
		s.see(j, gpus, now)
		if j.quiet != 0 && now-j.quiet >= after && now-j.looked >= uint64(lookAgain) {
			due = append(due, j)
		}
	}
	slices.SortFunc(due, func(a, b *job) int { return strings.Compare(a.name, b.name) })
	var pids []int
	for _, j := range due {
		for _, p := range j.processes {
			pids = append(pids, p.PID)
		}
	}
	if len(due) > 0 {
		why := s.Stuck(pids)
		for _, j := range due {
			if j.looked = now; why != nil {
				s.sayStuck(j, why, now)
			}
		}
	}
	s.export()
}

// see takes in what is seen of a job.
func (s *service) see(j *job, gpus []GPU, now uint64) {
	j.gpus = nil
	unseen, seen := false, make(map[int]bool)
	for _, g := range gpus {
		unseen = unseen || g.Unseen
		// NVML's PIDs may be those of another namespace: the only GPU is everybody's.
		if !g.Unseen && (len(gpus) == 1 || slices.ContainsFunc(g.PIDs, j.has)) {
			j.gpus = append(j.gpus, g)
		}
		for _, pid := range g.PIDs {
			seen[pid] = true
		}
	}
	elsewhere := func(p record.ArmedProcess) bool { return unseen && !seen[p.PID] }
	// What is not known (NaN) is not idle.
	if len(j.gpus) == 0 || slices.ContainsFunc(j.gpus, func(g GPU) bool { return g.Busy != 0 }) ||
		slices.ContainsFunc(j.processes, elsewhere) {
		j.idle = 0
	} else if j.idle == 0 {
		j.idle = now
	}
	quiet, what := j.idle, "its GPUs have been idle"
	if last, still := j.still(now); still {
		quiet, what = last, "no step has begun"
	}
	switch {
	case quiet == 0:
		j.stuck = 0
	case j.quiet == 0:
		j.looked = 0
	}
	j.quiet, j.what = quiet, what
}

func (j *job) has(pid int) bool {
	return slices.ContainsFunc(j.processes, func(p record.ArmedProcess) bool { return p.PID == pid })
}

// still reports whether no process of a job that counts steps has begun one for long, and when the last one began. A
// collective that waits for a rank that is stuck keeps the GPU busy.
func (j *job) still(now uint64) (last uint64, still bool) {
	for _, c := range j.counters {
		if len(c.outside) == 0 {
			continue
		}
		if now < c.seen || float64(now-c.seen) < max(stillSteps*c.usual(), float64(mostQuiet)) {
			return 0, false
		}
		last, still = max(last, c.seen), true
	}
	return last, still
}

// sayStuck says why processes of a job are stuck, once.
func (s *service) sayStuck(j *job, why map[int]string, now uint64) {
	before, first := j.stuck, ""
	j.stuck = 0
	for _, p := range j.processes {
		if text := why[p.PID]; text != "" {
			if j.stuck++; first == "" {
				first = fmt.Sprintf("process %d is stuck: %s", p.PID, text)
			}
		}
	}
	if j.stuck == 0 || before > 0 {
		return
	}
	if j.stuck > 1 {
		first += fmt.Sprintf("; so are %s more", figures.Count(j.stuck-1, "process", "processes"))
	}
	s.Say(fmt.Sprintf("%s: %s for %s: %s", j.name, j.what, time.Duration(now-j.quiet).Round(time.Second), first))
}

// export adds what was seen.
func (b *between) export(l *prometheus.Labelled) {
	for _, g := range b.gpus {
		l.Set(busyNow, g.Busy, g.UUID)
	}
	for state, n := range b.threads {
		l.Set(threadsNow, float64(n), state)
	}
	l.Set(stuckNow, float64(b.stuck))
}
