// Package watch records the armed programs of a machine at intervals, within a budget.
//
// Input: the armed processes, and the steps that they count. Output: windows, each a complete recording, in a folder
// of bounded size; metrics of the latest window of each job. Whatever goes wrong with a window is a line: the next one
// comes.
//
//	watch.go   the service from start to end
//	pace.go    how often a job is recorded
//	steps.go   what a window costs
//	between.go what is seen without one
//	keep.go    which windows are kept
package watch

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cudatrace/cudatrace/convert/prometheus"
	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// Options say what is recorded, and how often.
type Options struct {
	PIDs       []int // the processes; empty for all that are armed
	Folder     string
	Host       string // for names of files
	Every, For time.Duration
	Budget     float64 // largest share of the time that recording may cost
	DiskLimit  int64   // bytes of all windows
	Keep       int     // windows; 0 for as many as DiskLimit allows
	Windows    int     // after which the service ends; 0 for none
	Quiet      bool    // say what went wrong only
}

// A Machine is where the service runs.
type Machine interface {
	Now() time.Time // by the wall clock alone, which is set at times
	Monotonic() uint64
	Await(until time.Time) (over bool) // over: a person ends the service
	Armed() ([]record.ArmedProcess, error)
	Steps(pid int) (record.Steps, bool)
	Record(pids []int, base string) (lacks string, err error) // one window, and what it lacks
	Convert(base string) (metrics string, err error)          // what is made of a window, and its metrics
	Export(m *prometheus.Metrics) error                       // all metrics
	GPUs() []GPU                                              // use since the call before; nil if it is not known
	Threads(pid int) map[string]int                           // by state
	Stuck(pids []int) map[int]string                          // why those are stuck that are; nil if it is not known
	Say(line string)
}

// The families of the service.
var (
	windowsTotal = &prometheus.Family{
		Name: "cudatrace_watch_windows_total", Help: "windows that were recorded", Counter: true,
	}
	failedTotal = &prometheus.Family{
		Name: "cudatrace_watch_failed_windows_total", Help: "windows of which there is no recording", Counter: true,
	}
	intervalNow = &prometheus.Family{
		Name: "cudatrace_watch_interval_seconds", Help: "time from one window to the next",
	}
	dutyNow = &prometheus.Family{Name: "cudatrace_watch_duty_ratio", Help: "part of the time that is recorded"}
	costNow = &prometheus.Family{
		Name: "cudatrace_watch_cost_ratio",
		Help: "part of the time that recording costs the program, by its steps; absent while it is not known",
	}
	costErrorNow = &prometheus.Family{
		Name: "cudatrace_watch_cost_error_ratio", Help: "standard error of the cost, as a part of the time",
	}
	stepNow = &prometheus.Family{
		Name: "cudatrace_watch_step_seconds", Help: "time of a step between windows and in the latest one", Labels: "when",
	}
)

// Families are the families of the service, beside those of a recording.
var Families = []*prometheus.Family{
	windowsTotal, failedTotal, intervalNow, dutyNow, costNow, costErrorNow, stepNow, busyNow, threadsNow, stuckNow,
}

// mostEarly is how much earlier than its moment a window may begin.
const mostEarly = time.Second

// lookInterval is the longest time between two looks for armed processes and their steps.
const lookInterval = 10 * time.Second

// A job is a distributed program, or a program by itself.
type job struct {
	pace
	between
	name      string
	offset    time.Duration // of its windows in the grid
	processes []record.ArmedProcess
	counters  map[int]*counter // by PID
	after     time.Time        // its next window does not begin before
	ended     uint64           // its latest window, ns of CLOCK_MONOTONIC
	done      int              // windows
	failed    int
	metrics   string // of the latest window
}

// A service is one run of the command.
type service struct {
	Options
	Machine
	jobs    map[string]*job
	named   map[int]procfs.StartTime // of PIDs
	said    map[string]string        // what was said of what goes wrong all the time
	windows int

	threadsAfter uint64 // the states of threads are not read before, ns of CLOCK_MONOTONIC
}

// Run records until a person ends it, the processes that were named have ended, or the windows are enough.
func Run(o Options, m Machine) error {
	s := &service{
		Options: o, Machine: m,
		jobs: make(map[string]*job), said: make(map[string]string), named: make(map[int]procfs.StartTime),
	}
	for s.Windows == 0 || s.windows < s.Windows {
		if err := s.look(); err != nil {
			return err
		}
		if len(s.PIDs) > 0 && len(s.jobs) == 0 {
			return nil
		}
		s.watchQuiet()
		until := s.Now().Add(lookInterval)
		j, at := s.first()
		due := j != nil && at.Before(until)
		if due {
			until = at
		}
		if s.Await(until) {
			return nil
		}
		if !due {
			continue
		}
		if err := s.look(); err != nil { // programs come and go meanwhile, and the clock may have been set
			return err
		}
		if j, at = s.first(); j != nil && !s.Now().Before(at.Add(-mostEarly)) {
			s.window(j, at)
		}
	}
	return nil
}

// look finds the armed processes, and reads their steps.
func (s *service) look() error {
	found, err := s.Armed()
	if err != nil {
		return err
	}
	groups, order := make(map[string][]record.ArmedProcess), []string(nil)
	for _, p := range found {
		if !s.wants(p) {
			continue
		}
		key := cmp.Or(p.Job, p.Family)
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], p)
	}
	before, now := len(s.jobs), s.Now()
	maps.DeleteFunc(s.jobs, func(key string, _ *job) bool { return groups[key] == nil })
	if len(s.jobs) < before {
		s.export()
	}
	for _, key := range order {
		j := s.jobs[key]
		if j == nil {
			j = s.begin(key, groups[key])
		}
		if j.after.Sub(now) > mostEarly { // the clock was set back
			j.after = now
		}
		if late := now.Add(1 - j.interval()); j.after.Before(late) { // it was set forward, or the host was suspended
			j.after = late
		}
		j.take(groups[key])
		s.count(j)
	}
	return nil
}

// wants reports whether a process is to be watched: any, or one that was named and not a later one with its PID.
func (s *service) wants(p record.ArmedProcess) bool {
	if len(s.PIDs) == 0 || !slices.Contains(s.PIDs, p.PID) {
		return len(s.PIDs) == 0
	}
	if _, seen := s.named[p.PID]; !seen {
		s.named[p.PID] = p.Start
	}
	return s.named[p.PID] == p.Start
}

// begin adds a job.
func (s *service) begin(key string, of []record.ArmedProcess) *job {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(key)) // a hash takes everything
	j := &job{
		pace:   pace{budget: s.Budget, every: s.Every, length: s.For},
		name:   cmp.Or(of[0].Job, record.AttachName(of[0].PID)),
		offset: time.Duration(hash.Sum64() % uint64(s.Every)), counters: make(map[int]*counter), after: s.Now(),
		ended: s.Monotonic(), // its turn comes behind those that wait already
	}
	j.adapt()
	s.jobs[key] = j
	if !s.Quiet {
		s.Say(fmt.Sprintf("%s: %s, every %s", j.name, figures.Count(len(of), "process", "processes"), j.interval()))
	}
	return j
}

// take takes the processes that a job has now.
func (j *job) take(now []record.ArmedProcess) {
	for _, p := range j.processes {
		if !slices.ContainsFunc(now, func(o record.ArmedProcess) bool { return o.PID == p.PID && o.Start == p.Start }) {
			delete(j.counters, p.PID)
		}
	}
	j.processes = now
}

// count reads the steps of a job's processes between windows.
func (s *service) count(j *job) {
	sum, n := 0.0, 0
	for _, p := range j.processes {
		steps, ok := s.Steps(p.PID)
		if !ok {
			continue
		}
		if j.counters[p.PID] == nil {
			j.counters[p.PID] = new(counter)
		}
		if lost, known := j.counters[p.PID].look(steps); known {
			sum, n = sum+lost, n+1
		}
	}
	if n > 0 {
		j.measured(sum / float64(n))
		j.adapt()
		s.export()
	}
}

// first is the job whose window is the next one, and when it begins; nil without jobs. Of those whose moment has come
// it is the one that was not recorded for longest: there may be more of them than there is time for.
func (s *service) first() (next *job, at time.Time) {
	now, soonest := s.Now(), time.Time{}
	for _, j := range s.jobs {
		t := j.next(j.after, j.offset)
		can := t
		if can.Before(now) {
			can = now
		}
		if next == nil ||
			cmp.Or(can.Compare(soonest), cmp.Compare(j.ended, next.ended), strings.Compare(j.name, next.name)) < 0 {
			next, at, soonest = j, t, can
		}
	}
	return next, at
}

var errBusy = errors.New("another recorder records its processes, or the last recording of them has not ended yet")

// window records a job once.
func (s *service) window(j *job, at time.Time) {
	s.windows++
	name := base(j.name, s.Host, at)
	began := s.Monotonic()
	var pids []int
	for _, p := range j.processes {
		if p.Recorded {
			continue
		}
		pids = append(pids, p.PID)
		if steps, ok := s.Steps(p.PID); ok && j.counters[p.PID] != nil {
			j.counters[p.PID].begin(steps)
		}
	}
	lacks, err := "", errBusy
	if len(pids) > 0 {
		lacks, err = s.Record(pids, filepath.Join(s.Folder, name))
	}
	ended, now := s.Monotonic(), s.Now()
	for _, c := range j.counters {
		if c.end(ended); err != nil {
			c.fails()
		}
	}
	j.lasted(time.Duration(ended - began))
	j.after, j.ended = now, ended
	if !now.After(at) { // it failed at once
		j.after = at.Add(1)
	}
	if err != nil {
		if !s.over() && (s.anyLives(pids) || len(pids) == 0) {
			j.failed++
			s.Say(fmt.Sprintf("%s: no window at %s: %v", j.name, at.UTC().Format(time.TimeOnly), err))
		}
		err := remove(s.Folder, name)
		if errors.Is(err, fs.ErrNotExist) { // the folder is gone
			err = nil
		}
		s.trouble("what windows that failed have left is not removed", err)
	} else {
		if j.done++; lacks != "" {
			s.Say(fmt.Sprintf("%s is not complete: %s", name, lacks))
		}
		j.metrics, err = s.Convert(filepath.Join(s.Folder, name))
		if err != nil && !s.over() && (lacks == "" || !saysIncomplete(err, name)) {
			s.Say(fmt.Sprintf("%s: %v", name, err))
		}
	}
	j.adapt()
	if none := s.tidy(); none && err == nil {
		s.Say(name + " is larger than --disk-limit, and is not kept")
	}
	s.export()
	if err == nil && !s.Quiet {
		next := j.next(j.after, j.offset).UTC().Format(time.TimeOnly)
		s.Say(fmt.Sprintf("%s: %s; the next one at %s", name, j.words(), next))
	}
}

// saysIncomplete reports whether an error says no more than that the log of a window is not complete.
func saysIncomplete(err error, name string) bool {
	text := err.Error()
	return strings.Contains(text, name+".cudatrace is not complete: ") && !strings.Contains(text, "\n")
}

// anyLives reports whether a process is still armed. If the list cannot be had, the next look says so.
func (s *service) anyLives(pids []int) bool {
	now, err := s.Armed()
	here := func(p record.ArmedProcess) bool { return slices.Contains(pids, p.PID) }
	return err != nil || slices.ContainsFunc(now, here)
}

// over reports whether a person has ended the service, and with it what it was waiting for.
func (s *service) over() bool { return s.Await(time.Time{}) }

// words says what recording a job costs.
func (j *job) words() string {
	share, spread := j.cost()
	switch {
	case j.known():
		return fmt.Sprintf("it costs %.2g %% of the time, give or take %.1g %%", 100*share, 100*spread)
	case len(j.counters) == 0:
		return "its cost is not known: the program counts no steps (cudatrace.step())"
	case len(j.lost) > 1:
		return "its cost is not known: its steps differ too much"
	case j.done > 3 && !j.free():
		return "its cost is not known: no step is free of windows"
	}
	return "its cost is not known yet"
}

// free reports whether a step of a process was free of windows.
func (j *job) free() bool {
	for _, c := range j.counters {
		if len(c.outside) > 0 {
			return true
		}
	}
	return false
}

// tidy removes windows that are too many, and reports whether it has removed all.
func (s *service) tidy() (none bool) {
	left, err := tidy(s.Folder, s.Now(), s.DiskLimit, s.Keep)
	s.trouble("old windows are not removed", err)
	return left == 0 && err == nil
}

// export hands out the metrics of all jobs.
func (s *service) export() {
	m := new(prometheus.Metrics)
	byName := func(a, b *job) int { return strings.Compare(a.name, b.name) }
	for _, j := range slices.SortedFunc(maps.Values(s.jobs), byName) {
		l := m.With("job", j.name)
		l.Set(windowsTotal, float64(j.done))
		l.Set(failedTotal, float64(j.failed))
		l.Set(intervalNow, j.interval().Seconds())
		l.Set(dutyNow, s.For.Seconds()/j.interval().Seconds())
		share, spread := j.cost()
		l.Set(costNow, share)
		l.Set(costErrorNow, spread)
		j.steps(l)
		j.export(l)
		if err := l.Read(j.metrics); err != nil {
			j.metrics = ""
			s.Say(fmt.Sprintf("%s: %v", j.name, err))
		}
	}
	s.trouble("metrics are not written", s.Export(m))
}

// steps adds the mean time of a step of a job's processes.
func (j *job) steps(l *prometheus.Labelled) {
	var outside, inside []float64
	for _, c := range j.counters {
		if len(c.outside) > 0 {
			outside = append(outside, c.usual())
		}
		if c.inside > 0 {
			inside = append(inside, c.inside)
		}
	}
	if len(outside) > 0 {
		l.Set(stepNow, median(outside)/1e9, "between")
	}
	if len(inside) > 0 {
		l.Set(stepNow, median(inside)/1e9, "window")
	}
}

// trouble says what goes wrong, unless it did already at the last try.
func (s *service) trouble(what string, err error) {
	text := ""
	if err != nil {
		text = what + ": " + err.Error()
	}
	if text != "" && text != s.said[what] {
		s.Say(text)
	}
	s.said[what] = text
}
