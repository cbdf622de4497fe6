package watch

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/convert/prometheus"
	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// A program is one of a machine's: it does steps, which take longer while it is recorded.
type program struct {
	pid         int
	job         string
	from, until time.Duration // of its life
	step        time.Duration // 0: it counts none
	slower      float64       // factor in a window
	stall       time.Duration // at the begin of each window
	rare        time.Duration // every 10,000th step takes so much longer

	random   *rand.Rand    // steps of exponential length
	recorded bool          // by somebody else
	stops    time.Duration // when it stops for good; 0 for never
	spins    bool          // its GPU stays busy then
	divided  bool          // its GPU is, into MIG instances

	owed, done float64 // ns: of the step that has begun; that the program has lost to recordings
	at         float64 // ns on the clock: the beginning of the latest step
	steps      uint64
}

// A machine runs programs in a time of its own.
type machine struct {
	t        *testing.T
	now, end time.Duration
	programs []*program
	steps    map[time.Duration]time.Duration // of the clock, by when
	clock    time.Duration                   // of its steps so far
	fail     func(window int) error          // of recording
	full     func(window int) error          // of converting
	refuse   func(window int) error          // to record
	refused  int
	unread   func() bool // metrics cannot be written
	blind    bool        // every second look at processes fails
	windows  []recorded
	said     []string
	costs    []told
	hidden   bool          // NVML does not see the programs' PIDs
	unknown  bool          // nor how busy GPUs are
	asked    int           // how often processes were looked at
	first    time.Duration // when they were first
	metrics  string
	folder   string
}

// A told is a cost that was exported.
type told struct{ cost, spread float64 }

type recorded struct {
	at, until time.Duration
	clock     time.Time
	base      string
	pids      []int
}

// starting is the time that a recording takes before and behind its window.
const starting = 100 * time.Millisecond

var epoch = time.Unix(1_800_000_000, 0)

func (m *machine) Now() time.Time {
	for at, by := range m.steps {
		if m.now >= at {
			m.clock += by
			delete(m.steps, at)
		}
	}
	return epoch.Add(m.now + m.clock)
}

func (m *machine) Monotonic() uint64 { return uint64(m.now) }
func (m *machine) Say(line string)   { m.said = append(m.said, line) }

func (m *machine) Await(until time.Time) bool {
	m.pass(until.Sub(m.Now()), nil)
	return m.now >= m.end
}

// pass lets time pass, in which some programs are recorded.
func (m *machine) pass(d time.Duration, pids []int) {
	d = max(d, 0)
	for _, p := range m.programs {
		if p.step == 0 || !m.lives(p) || m.stopped(p) {
			continue
		}
		factor, from := 1.0, float64(m.now)
		left := float64(d)
		if slices.Contains(pids, p.pid) {
			factor = p.slower
			stall := min(float64(p.stall), left)
			from, left, p.done = from+stall, left-stall, p.done+stall
		}
		for left > 0 {
			if p.owed <= 0 {
				p.owed, p.at, p.steps = float64(p.step), from, p.steps+1
				if p.random != nil {
					p.owed *= p.random.ExpFloat64()
				}
				if p.rare > 0 && p.steps%10_000 == 0 {
					p.owed += float64(p.rare)
				}
			}
			took := min(left, p.owed*factor)
			p.owed, left, from = p.owed-took/factor, left-took, from+took
			if p.owed < 1e-3 {
				p.owed = 0
			}
			p.done += took - took/factor
		}
	}
	m.now += d
}

func (m *machine) lives(p *program) bool { return m.now >= p.from && (p.until == 0 || m.now < p.until) }

func (m *machine) Armed() (list []record.ArmedProcess, err error) {
	for _, p := range m.programs {
		if m.lives(p) {
			list = append(list, record.ArmedProcess{
				PID: p.pid, Start: procfs.StartTime(p.from), Job: p.job, Family: fmt.Sprint("/tmp/", p.pid),
				Recorded: p.recorded,
			})
		}
	}
	return list, nil
}

func (m *machine) Steps(pid int) (s record.Steps, ok bool) {
	for _, p := range m.programs {
		if p.pid == pid && m.lives(p) {
			s = record.Steps{Last: uint64(p.at), Count: p.steps}
		}
	}
	return s, s.Count > 0
}

func (m *machine) Record(pids []int, base string) (string, error) {
	if m.refuse != nil {
		if err := m.refuse(len(m.windows) + m.refused); err != nil {
			m.refused++
			return "", err
		}
	}
	w := recorded{at: m.now, clock: m.Now(), base: base, pids: pids}
	m.pass(2*time.Second+starting, pids)
	w.until = m.now
	m.windows = append(m.windows, w)
	if m.fail != nil {
		if err := m.fail(len(m.windows)); err != nil {
			return "", errors.Join(err, os.WriteFile(base+".cudatrace.partial-1-A", []byte("cut"), 0o666))
		}
	}
	return "", os.WriteFile(base+".cudatrace", make([]byte, 5000), 0o666)
}

func (m *machine) Convert(string) (string, error) {
	if m.full != nil {
		if err := m.full(len(m.windows)); err != nil {
			return "", err
		}
	}
	return "# HELP cudatrace_complete 1 if nothing is missing\n# TYPE cudatrace_complete gauge\ncudatrace_complete 1\n", nil
}

func (m *machine) Export(metrics *prometheus.Metrics) error {
	var text strings.Builder
	err := metrics.Write(&text)
	m.metrics = text.String()
	if m.unread != nil && m.unread() {
		return errors.New("no space left on device")
	}
	if _, after, found := strings.Cut(m.metrics, "cudatrace_watch_cost_ratio{job=\"pid-7\"} "); found {
		var c told
		_, rest, _ := strings.Cut(m.metrics, "cudatrace_watch_cost_error_ratio{job=\"pid-7\"} ")
		_, err1 := fmt.Sscan(after, &c.cost)
		_, err2 := fmt.Sscan(rest, &c.spread)
		m.costs, err = append(m.costs, c), errors.Join(err, err1, err2)
	}
	return err
}

func (m *machine) stopped(p *program) bool { return p.stops > 0 && m.now >= p.stops }

// GPUs has a GPU for each program.
func (m *machine) GPUs() (list []GPU) {
	for _, p := range m.programs {
		if !m.lives(p) {
			continue
		}
		g := GPU{UUID: fmt.Sprint("GPU-", p.pid), Busy: 0.5, PIDs: []int{p.pid}}
		if m.stopped(p) && !p.spins {
			g.Busy = 0
		}
		if m.hidden || p.divided {
			g.PIDs = nil
		}
		if g.Unseen = p.divided; p.divided {
			g.Busy = math.NaN()
		}
		if m.unknown {
			g.Busy = math.NaN()
		}
		list = append(list, g)
	}
	return list
}

func (m *machine) Threads(int) map[string]int { return map[string]int{"running": 1, "sleeping": 4} }

func (m *machine) Stuck(pids []int) map[int]string {
	if m.asked++; m.asked == 1 {
		m.first = m.now
	}
	if m.blind && m.asked%2 == 0 {
		return nil
	}
	why := make(map[int]string)
	for _, p := range m.programs {
		if m.stopped(p) && slices.Contains(pids, p.pid) {
			why[p.pid] = "the main thread waits for a lock"
		}
	}
	return why
}

// run runs the service for a time.
func (m *machine) run(t *testing.T, end time.Duration, o Options) {
	t.Helper()
	m.end, m.folder = end, t.TempDir()
	o.Folder, o.Host, o.For = m.folder, "node", 2*time.Second
	o.Every = max(o.Every, time.Minute)
	o.DiskLimit = max(o.DiskLimit, 1<<30)
	if o.Budget == 0 {
		o.Budget = 0.01
	}
	must.Do(t, Run(o, m))
}

// The mean cost over hours is within the budget, by what the program has lost in fact, and windows come nearly as often as
// it allows: whether a window slows the program down, stops it, or costs nothing.
func TestBudget(t *testing.T) {
	t.Parallel()
	const hours, step = 4 * time.Hour, 50 * time.Millisecond
	for name, c := range map[string]struct {
		program
		least, most int // windows
	}{
		"free":        {program{step: step, slower: 1}, 220, 240},
		"slower":      {program{step: step, slower: 1.25}, 200, 240},
		"much slower": {program{step: step, slower: 6}, 50, 85},
		"stalls":      {program{step: step, slower: 1.1, stall: 900 * time.Millisecond}, 100, 125},
		"long steps":  {program{step: 7 * time.Second, slower: 1.25}, 200, 240},
		"checkpoints": {program{step: step, slower: 1.25, rare: 5 * time.Second}, 200, 240},
		"no steps":    {program{}, 55, 61},
	} {
		p := c.program
		p.pid = 7
		m := &machine{t: t, programs: []*program{&p}}
		m.run(t, hours, Options{})
		if n := len(m.windows); n < c.least || n > c.most {
			t.Errorf("%s: %d windows, want %d to %d", name, n, c.least, c.most)
		}
		if cost := p.done / float64(hours); cost > 0.01 {
			t.Errorf("%s: recording cost %.2f %%", name, 100*cost)
		}
		said := strings.Contains(m.metrics, "cudatrace_watch_cost_ratio{")
		if said != (p.step > 0) {
			t.Errorf("%s: a cost is exported: %t\n%s", name, said, m.metrics)
		}
	}
}

// Windows that could not begin cost nothing, and say nothing of the cost of others.
func TestBudgetOfRefused(t *testing.T) {
	t.Parallel()
	p := &program{pid: 7, step: 50 * time.Millisecond, slower: 6}
	m := &machine{t: t, programs: []*program{p}, refuse: func(window int) error {
		if window%9 > 3 {
			return errors.New("no space left on device")
		}
		return nil
	}}
	m.run(t, 8*time.Hour, Options{Quiet: true})
	if cost, told := p.done/float64(8*time.Hour), m.costs[len(m.costs)-1]; cost > 0.01 || told.cost < cost {
		t.Errorf("%d windows, %d refused: they cost %.2f %%, exported is %v", len(m.windows), m.refused, 100*cost, told)
	}
}

// Where the windows of all jobs do not fit into the time, jobs take turns.
func TestTurns(t *testing.T) {
	t.Parallel()
	m := &machine{t: t}
	const jobs = 45
	for n := range jobs {
		m.programs = append(m.programs, &program{pid: n + 1, step: 100 * time.Millisecond, slower: 1})
	}
	m.run(t, 12*time.Minute, Options{Keep: 1})
	for n := range jobs {
		if got := len(m.moments(n + 1)); got < len(m.windows)/jobs-1 {
			t.Errorf("job %d has %d of %d windows", n, got, len(m.windows))
		}
	}
}

// Jobs that come all the time do not take the turns of those that stay.
func TestTurnsOfNewJobs(t *testing.T) {
	t.Parallel()
	m := &machine{t: t}
	const jobs = 10
	for n := range jobs {
		m.programs = append(m.programs, &program{pid: n + 1, step: 100 * time.Millisecond})
	}
	for n := range 600 {
		from := time.Duration(n) * 2 * time.Second
		m.programs = append(m.programs, &program{pid: 100 + n, from: from, until: from + 5*time.Minute})
	}
	m.run(t, 20*time.Minute, Options{Keep: 1})
	for n := range jobs {
		if got := len(m.moments(n + 1)); got < 3 {
			t.Errorf("job %d has %d of %d windows", n, got, len(m.windows))
		}
	}
}

// A window that is larger than the disk limit is not kept, and a line says so.
func TestLargeWindow(t *testing.T) {
	t.Parallel()
	m := &machine{t: t, programs: []*program{{pid: 1}}, end: time.Hour, folder: t.TempDir()}
	o := Options{Folder: m.folder, Every: time.Minute, For: 2 * time.Second, Budget: 1, DiskLimit: 4096, Quiet: true}
	must.Do(t, Run(o, m))
	left, err := os.ReadDir(m.folder)
	if len(left) > 0 || err != nil || len(m.said) != len(m.windows) || !strings.HasPrefix(m.said[0], "pid-1-") ||
		!strings.HasSuffix(m.said[0], " is larger than --disk-limit, and is not kept") {
		t.Errorf("left are %v, %v; it said %q", left, err, m.said)
	}
}

// What goes wrong all the time is said once, and again when it comes again.
func TestTrouble(t *testing.T) {
	t.Parallel()
	m := &machine{t: t, programs: []*program{{pid: 1}}}
	m.unread = func() bool { return m.now/time.Hour%2 == 1 }
	m.run(t, 4*time.Hour, Options{Quiet: true})
	const text = "metrics are not written: no space left on device"
	if !slices.Equal(m.said, []string{text, text}) {
		t.Errorf("it said %q", m.said)
	}
}

// The cost that is exported is what the program has lost.
func TestCost(t *testing.T) {
	t.Parallel()
	p := &program{pid: 7, step: 150 * time.Millisecond, slower: 1.5}
	m := &machine{t: t, programs: []*program{p}}
	m.run(t, 4*time.Hour, Options{Budget: 0.02})
	var told, between, window float64
	for line := range strings.Lines(m.metrics) {
		fmt.Sscanf(line, "cudatrace_watch_cost_ratio{job=\"pid-7\"} %g", &told)
		fmt.Sscanf(line, "cudatrace_watch_step_seconds{job=\"pid-7\",when=\"between\"} %g", &between)
		fmt.Sscanf(line, "cudatrace_watch_step_seconds{job=\"pid-7\",when=\"window\"} %g", &window)
	}
	if real := p.done / float64(4*time.Hour); math.Abs(told-real) > 0.1*real || real == 0 {
		t.Errorf("exported %g, lost %g\n%s", told, real, m.metrics)
	}
	if math.Abs(between-0.15) > 1e-3 || window < between {
		t.Errorf("steps of %g and %g s", between, window)
	}
}

// Of a program whose steps do not tell what windows cost, no cost is exported, and a line says why; else it is near what
// the program has lost.
func TestCostOfOddSteps(t *testing.T) {
	t.Parallel()
	const hours, known, unknown = 8 * time.Hour, "it costs ", "its cost is not known: "
	for name, c := range map[string]struct {
		program
		said string
	}{
		"none":                    {program{}, unknown + "the program counts no steps (cudatrace.step())"},
		"short, irregular":        {program{step: 100 * time.Millisecond, random: random()}, known},
		"longer than a window":    {program{step: 7 * time.Second}, known},
		"irregular":               {program{step: time.Second, random: random()}, known},
		"long and irregular":      {program{step: 50 * time.Second, random: random()}, unknown + "its steps differ"},
		"longer than an interval": {program{step: 5 * time.Minute}, unknown + "no step is free of windows"},
	} {
		p := c.program
		p.pid, p.slower = 7, 1.1
		m := &machine{t: t, programs: []*program{&p}}
		m.run(t, hours, Options{})
		lost, off, said := p.done/float64(hours), 0, 0
		for _, told := range m.costs {
			if math.Abs(told.cost-lost) > 3*told.spread+0.001 {
				off++
			}
		}
		for _, line := range m.said {
			if strings.Contains(line, c.said) {
				said++
			}
		}
		if off > len(m.costs)/10 {
			t.Errorf("%s: %d of %d costs are wrong", name, off, len(m.costs))
		}
		if said < len(m.windows)*3/4 || (c.said == known) != (len(m.costs) > 0) {
			t.Errorf("%s: %d windows, %d costs, said %q", name, len(m.windows), len(m.costs), m.said)
		}
	}
}

func random() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// moments are when the windows of a job began.
func (m *machine) moments(pid int) (list []string) {
	for _, w := range m.windows {
		if slices.Contains(w.pids, pid) {
			list = append(list, w.base[strings.LastIndexByte(w.base, '-')+1:])
		}
	}
	return list
}

// All ranks of a job are recorded together, also those on another host, which may have other jobs and come later; one that
// records less often does so at moments of the others. Different jobs take turns.
func TestMoments(t *testing.T) {
	t.Parallel()
	rank := func(pid int, slower float64, from time.Duration) *program {
		return &program{pid: pid, job: "4711", step: 200 * time.Millisecond, slower: slower, from: from}
	}
	a := &machine{t: t, programs: []*program{rank(1, 1, 0), rank(2, 1, 0), {pid: 3, job: "4712", step: time.Second, slower: 1}, {pid: 4}}}
	b := &machine{t: t, now: 17 * time.Minute, programs: []*program{rank(5, 6, 17*time.Minute), {pid: 6, step: time.Second, slower: 1}}}
	a.run(t, 3*time.Hour, Options{})
	b.run(t, 3*time.Hour, Options{})
	if !slices.Equal(a.moments(1), a.moments(2)) || len(a.moments(1)) < 160 {
		t.Errorf("rank 0 at %v\nrank 1 at %v", a.moments(1), a.moments(2))
	}
	for _, at := range b.moments(5) {
		if !slices.Contains(a.moments(1), at) {
			t.Errorf("the other host records at %s", at)
		}
	}
	if len(b.moments(5)) < 20 {
		t.Errorf("the other host has %d windows", len(b.moments(5)))
	}
	for i := range a.windows[1:] {
		if a.windows[i+1].at < a.windows[i].until {
			t.Errorf("windows at %s and %s overlap", a.windows[i].at, a.windows[i+1].at)
		}
	}
	if len(a.moments(3)) == 0 || len(a.moments(4)) == 0 || slices.Equal(a.moments(3), a.moments(1)) {
		t.Errorf("other jobs at %v, %v", a.moments(3), a.moments(4))
	}
}

// Programs come and go, the recorder is killed, the disk is full: a line for each, and the next window comes. Nothing of a
// window that failed stays.
func TestFaults(t *testing.T) {
	t.Parallel()
	m := &machine{
		t: t, programs: []*program{
			{pid: 1, step: time.Second, slower: 1, until: time.Hour},
			{pid: 2, step: time.Second, slower: 1, from: 30 * time.Minute},
		},
		fail: func(window int) error {
			if window%10 == 0 {
				return errors.New("record was killed (killed)")
			}
			return nil
		},
		full: func(window int) error {
			if window%10 == 1 {
				return errors.New("no space left on device")
			}
			return nil
		},
	}
	m.run(t, 2*time.Hour, Options{Quiet: true, Keep: 20})
	killed, full := 0, 0
	for _, line := range m.said {
		switch {
		case strings.HasSuffix(line, ": record was killed (killed)"):
			killed++
		case strings.HasSuffix(line, ": no space left on device"):
			full++
		default:
			t.Errorf("it said %q", line)
		}
	}
	n := len(m.windows)
	if n < 130 || killed != n/10 || full != (n+8)/10 {
		t.Errorf("%d windows, %d killed, %d without room", n, killed, full)
	}
	if first, second := len(m.moments(1)), len(m.moments(2)); first < 50 || second < 75 {
		t.Errorf("%d and %d windows", first, second)
	}
	if strings.Contains(m.metrics, `"pid-1"`) || !strings.Contains(m.metrics, `cudatrace_watch_failed_windows_total{job="pid-2"}`) {
		t.Errorf("metrics:\n%s", m.metrics)
	}
	left, err := os.ReadDir(m.folder)
	if err != nil || len(left) != 20 {
		t.Errorf("%d files are left: %v", len(left), err)
	}
	for _, f := range left {
		if !strings.HasSuffix(f.Name(), ".cudatrace") {
			t.Errorf("%s is left", f.Name())
		}
	}
}

// Whichever way the clock steps, in a window, too, windows go on to come as often, and have their moment in their name.
// One that takes long does not make later ones rare.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	const waits = 2*time.Hour + 27*time.Second // for the next window
	m := &machine{t: t, programs: []*program{{pid: 1, step: time.Second, slower: 1}}}
	m.steps = map[time.Duration]time.Duration{
		time.Hour: -5 * time.Hour, waits: 9 * time.Hour, 3 * time.Hour: -time.Minute,
	}
	m.run(t, 4*time.Hour, Options{})
	for _, w := range m.windows {
		at, err := time.Parse(windowTime, w.base[strings.LastIndexByte(w.base, '-')+1:])
		if apart := w.clock.Sub(at); err != nil || apart < -mostEarly || apart > time.Minute {
			t.Errorf("a window at %s is named %s (%v)", w.clock, w.base, err)
		}
	}
	for i, w := range m.windows[1:] {
		if apart := w.at - m.windows[i].at; apart > 5*time.Minute {
			t.Errorf("%s between the windows at %s and %s", apart, m.windows[i].at, w.at)
		}
	}
	if len(m.windows) < 210 || m.windows[len(m.windows)-1].at < 4*time.Hour-5*time.Minute {
		t.Errorf("%d windows", len(m.windows))
	}
	m = &machine{t: t, programs: []*program{{pid: 1}}}
	m.fail = func(window int) error {
		switch window {
		case 10:
			m.pass(2*time.Minute, nil)
		case 20:
			m.clock += 5 * time.Hour
		case 30:
			m.clock -= 5 * time.Hour
		}
		return nil
	}
	if m.run(t, 4*time.Hour, Options{}); len(m.windows) < 53 {
		t.Errorf("%d windows, of which one took long: %v", len(m.windows), m.windows)
	}
}

// A program that ends before its window, or in its first moments, is no fault.
func TestEndedBefore(t *testing.T) {
	t.Parallel()
	m := &machine{t: t, programs: []*program{{pid: 1, until: time.Hour}, {pid: 2}}}
	m.fail = func(int) error {
		if m.windows[len(m.windows)-1].pids[0] == 1 {
			m.programs[0].until = m.now
			return errors.New("there is no process 1")
		}
		return nil
	}
	m.run(t, 2*time.Hour, Options{Quiet: true})
	if len(m.said) > 0 || len(m.moments(1)) != 1 {
		t.Errorf("it said %q", m.said)
	}
}

// When a job's GPUs are idle, or its steps stand still while they spin, its processes are looked at; the cause is said
// once, and the metrics have it as long as it lasts.
func TestStandstill(t *testing.T) {
	t.Parallel()
	const idle, still = "its GPUs have been idle for ", "no step has begun for "
	for name, c := range map[string]struct {
		program program
		hidden  bool
		want    string
	}{
		"idle":              {program{stops: time.Hour}, false, idle},
		"idle, only GPU":    {program{stops: time.Hour}, true, idle},
		"spins":             {program{stops: time.Hour, spins: true, step: time.Second, slower: 1}, false, still},
		"spins, no steps":   {program{stops: time.Hour, spins: true}, false, ""},
		"goes on":           {program{step: time.Second, slower: 1}, false, ""},
		"goes on, no steps": {program{}, false, ""},
		"long steps":        {program{step: 4 * time.Minute, slower: 1}, false, ""},
	} {
		p := c.program
		p.pid = 7
		m := &machine{t: t, programs: []*program{&p}, hidden: c.hidden}
		m.run(t, 2*time.Hour, Options{Quiet: true})
		got := strings.Join(m.said, "\n")
		if c.want != "" && (!strings.HasPrefix(got, "pid-7: "+c.want) || len(m.said) != 1 ||
			!strings.HasSuffix(got, ": process 7 is stuck: the main thread waits for a lock")) || c.want == "" && got != "" {
			t.Errorf("%s: it said %q", name, got)
		}
		stuck := strings.Contains(m.metrics, "cudatrace_watch_stuck_processes{job=\"pid-7\"} 1\n")
		if stuck != (c.want != "") || c.want == "" && m.asked > 0 || m.asked > 62 {
			t.Errorf("%s: looked %d times\n%s", name, m.asked, m.metrics)
		}
		if !strings.Contains(m.metrics, `cudatrace_watch_threads{job="pid-7",state="sleeping"} 4`) {
			t.Errorf("%s:\n%s", name, m.metrics)
		}
		if c.want == still {
			since := m.first - time.Duration(p.at)
			if since > 45*time.Second || !strings.HasPrefix(got, "pid-7: "+still+since.Round(time.Second).String()+": ") {
				t.Errorf("%s: %s after the last step it said %q", name, since, got)
			}
		}
	}
	m := &machine{t: t, blind: true, programs: []*program{{pid: 7, stops: time.Hour}}}
	if m.run(t, 2*time.Hour, Options{Quiet: true}); len(m.said) != 1 || m.asked%2 != 0 || m.asked > 62 ||
		!strings.Contains(m.metrics, "cudatrace_watch_stuck_processes{job=\"pid-7\"} 1\n") {
		t.Errorf("%d looks, it said %q\n%s", m.asked, m.said, m.metrics)
	}
	// Of several GPUs, those count whose processes NVML names.
	m = &machine{t: t, hidden: true, programs: []*program{{pid: 1, stops: time.Hour}, {pid: 2, from: 10}}}
	if m.run(t, 2*time.Hour, Options{Quiet: true}); len(m.said) > 0 {
		t.Errorf("it said %q", m.said)
	}
	m = &machine{t: t, unknown: true, programs: []*program{{pid: 1, stops: time.Hour}}}
	if m.run(t, 2*time.Hour, Options{Quiet: true}); m.asked > 0 {
		t.Errorf("nothing is known of the GPU, and it looked %d times", m.asked)
	}
	m = &machine{t: t, programs: []*program{{pid: 1, stops: time.Hour, job: "a"}, {pid: 2, job: "a"}}}
	if m.run(t, 2*time.Hour, Options{Quiet: true}); len(m.said) > 0 {
		t.Errorf("one rank computes, and it said %q", m.said)
	}
	// Who is on an instance of a divided GPU is not known: a whole GPU beside it says nothing of other processes.
	for _, programs := range [][]*program{
		{{pid: 1, divided: true}, {pid: 2, stops: time.Hour, until: time.Hour + time.Minute/2}},
		{{pid: 1, job: "a", divided: true}, {pid: 2, job: "a", stops: time.Hour}},
		{{pid: 1, divided: true, stops: time.Hour}},
	} {
		m = &machine{t: t, programs: programs}
		if m.run(t, 2*time.Hour, Options{Quiet: true}); m.asked > 0 {
			t.Errorf("a GPU is divided, and it looked %d times: %q", m.asked, m.said)
		}
	}
	m = &machine{t: t, programs: []*program{{pid: 1, divided: true}, {pid: 2, stops: time.Hour}}}
	m.run(t, 2*time.Hour, Options{Quiet: true})
	if len(m.said) != 1 || !strings.HasPrefix(m.said[0], "pid-2: its GPUs have been idle") {
		t.Errorf("a GPU beside a divided one is idle, and it said %q", m.said)
	}
}

// The service ends with the processes that were named, after some windows, and with the folder's error.
func TestEnd(t *testing.T) {
	t.Parallel()
	m := &machine{t: t, programs: []*program{{pid: 1, until: time.Hour}, {pid: 2}}}
	m.run(t, 5*time.Hour, Options{PIDs: []int{1}})
	if m.now > time.Hour+time.Minute || len(m.moments(2)) > 0 || len(m.moments(1)) == 0 {
		t.Errorf("at %s after %v", m.now, m.windows)
	}
	m = &machine{t: t, programs: []*program{{pid: 1, until: time.Hour}, {pid: 1, from: time.Hour}}}
	if m.run(t, 5*time.Hour, Options{PIDs: []int{1}}); m.now > time.Hour+time.Minute {
		t.Errorf("it went on to %s with another process of the PID", m.now)
	}
	m = &machine{t: t, programs: []*program{{pid: 1}}}
	if m.run(t, 5*time.Hour, Options{Windows: 3}); len(m.windows) != 3 {
		t.Errorf("%d windows", len(m.windows))
	}
}

// A process that somebody else records is left alone, and so is a job of such alone.
func TestBusy(t *testing.T) {
	t.Parallel()
	m := &machine{t: t, programs: []*program{{pid: 1, job: "a", recorded: true}, {pid: 2, job: "a"}, {pid: 3, job: "b", recorded: true}}}
	m.run(t, time.Hour, Options{Quiet: true})
	if len(m.moments(1))+len(m.moments(3)) > 0 || len(m.moments(2)) == 0 {
		t.Errorf("windows %v", m.windows)
	}
	for _, line := range m.said {
		if !strings.HasPrefix(line, "b: no window at ") || !strings.HasSuffix(line, ": "+errBusy.Error()) {
			t.Errorf("it said %q", line)
		}
	}
}

// docs/on-demand.md has each metric.
func TestDocs(t *testing.T) {
	t.Parallel()
	docs := must.Get(os.ReadFile("../../../docs/on-demand.md"))(t)
	for _, f := range Families {
		if !strings.Contains(string(docs), "`"+f.Name+"`") {
			t.Errorf("docs/on-demand.md has no %s", f.Name)
		}
	}
}

// A step is counted once, whenever the looks are; another program under the PID begins anew.
func TestCounter(t *testing.T) {
	t.Parallel()
	const ms = 1_000_000
	var c counter
	look := func(last, count uint64) (float64, bool) { return c.look(record.Steps{Last: last * ms, Count: count}) }
	look(1000, 100)
	look(1100, 110)
	look(1100, 110) // no step since
	c.begin(record.Steps{Last: 1200 * ms, Count: 120})
	c.end(1500 * ms)
	if _, known := look(1495, 140); known {
		t.Error("a cost is known before the first step behind the window")
	}
	if lost, known := look(1520, 142); !known || math.Abs(lost-0.100) > 1e-9 {
		t.Errorf("22 steps of 10 ms in 320 ms: lost %g s, %t", lost, known)
	}
	if _, known := look(1600, 150); known {
		t.Error("the cost of a window counts twice")
	}
	if look(50, 3); len(c.outside) != 0 {
		t.Errorf("another program has %v", c.outside)
	}
}

// The oldest windows go first, with all that was made of them; other files stay.
func TestTidy(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	at := func(n int) string { return base("a/b", "node", epoch.Add(time.Duration(n)*time.Hour)) }
	for n := range 5 { // the last one is from before the clock was set back
		write(t, folder, at(n)+".cudatrace", 8000)
		write(t, folder, at(n)+".parquet/work/run=a/x.parquet", 4000)
	}
	write(t, folder, base("c", "node", epoch)+".cudatrace.partial-1-A", 4000)
	write(t, folder, "mine.cudatrace", 100_000)
	set := epoch.Add(3*time.Hour + time.Minute)
	list, err := windows(folder, set)
	if err != nil || len(list) != 6 {
		t.Fatalf("%d windows, %v", len(list), err)
	}
	if left, err := tidy(folder, set, 1<<30, 4); left != 4 || err != nil {
		t.Errorf("%d are left, %v", left, err)
	}
	list, _ = windows(folder, set)
	if left, err := tidy(folder, set, list[3].bytes+list[2].bytes, 0); left != 2 || err != nil {
		t.Errorf("%d are left, %v", left, err)
	}
	var left []string
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := []string{at(2) + ".cudatrace", at(2) + ".parquet", at(3) + ".cudatrace", at(3) + ".parquet", "mine.cudatrace"}
	if !slices.Equal(left, want) || err != nil {
		t.Errorf("left are %v, %v; want %v", left, err, want)
	}
	if _, err := tidy(filepath.Join(folder, "none"), set, 0, 0); err == nil {
		t.Error("a folder that is not there")
	}
}

func write(t *testing.T, folder, name string, bytes int) {
	t.Helper()
	path := filepath.Join(folder, name)
	must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, make([]byte, bytes), 0o666)))
}
