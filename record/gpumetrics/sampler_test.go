package gpumetrics

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/metric"
	"github.com/cudatrace/cudatrace/record/metriclog"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/recordtest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// limit is how long a test waits for what must happen; none takes as long.
const limit = 60 * time.Second

// scratch is where the simulated libraries are: in a folder that only we can change.
var scratch = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "gpumetrics-test-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	built, err := filepath.Abs("../../build/sim")
	if err != nil {
		return "", err
	}
	libraries := []string{filepath.Join("nvml", libraryName), "lib/libcupti.so.13", "lib/libcuda.so.1"}
	args := []string{"-s", "-C", "../../testdata/sim", "BUILD=" + built}
	for _, l := range libraries {
		args = append(args, filepath.Join(built, l))
	}
	if out, err := exec.Command("make", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	for _, l := range libraries {
		b, err1 := os.ReadFile(filepath.Join(built, l))
		err2 := os.MkdirAll(filepath.Join(dir, filepath.Dir(l)), 0o755)
		if err := errors.Join(err1, err2, os.WriteFile(filepath.Join(dir, l), b, 0o755)); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, libraries[0]), nil
})

// library is the path of the simulated libnvidia-ml.
func library(t testing.TB) string {
	t.Helper()
	path := must.Get(scratch())(t)
	return path
}

func TestMain(m *testing.M) {
	if os.Getenv("GPUMETRICS_TEST_PARENT") != "" {
		parent()
	}
	code := m.Run()
	if path, err := scratch(); err == nil {
		os.RemoveAll(filepath.Dir(filepath.Dir(path)))
	}
	os.Exit(code)
}

// A recorder stands for the rest of a recording.
type recorder struct {
	t     testing.TB
	log   bytes.Buffer
	w     *tracelog.Writer
	sets  atomic.Uint32
	mu    sync.Mutex
	notes []string
	known map[uint32]bool
}

func (r *recorder) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, text)
}

// told reports whether a note has a text.
func (r *recorder) told(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.notes, func(n string) bool { return strings.Contains(n, text) })
}

func newRecorder(t testing.TB) *recorder {
	t.Helper()
	r := &recorder{t: t, known: map[uint32]bool{}}
	var err error
	if r.w, err = tracelog.NewWriter(&r.log, tracelog.Options{}); err != nil {
		t.Fatal(err)
	}
	return r
}

// options are those of a sampler that finds the simulated library, with further variables.
func (r *recorder) options(env ...string) Options {
	return Options{
		Log: r.w, NextSet: func() uint32 { return r.sets.Add(1) }, Known: func(pid uint32) bool { return r.known[pid] },
		Note: r.note, Miss: func(text string) { r.note("missing: " + text) }, Remark: func(text string) { r.note("remark: " + text) },
		environ: append(env, "LD_LIBRARY_PATH="+filepath.Dir(library(r.t))),
	}
}

// newTestSampler makes a Sampler without a process, for messages.
func newTestSampler(t testing.TB) *Sampler {
	r := newRecorder(t)
	o := r.options()
	o.now, o.time = host.Monotonic, host.Time
	s := &Sampler{options: o, board: newProcess(), devices: map[[2]uint32]string{}}
	s.gpus = newGPUs(o, func(uint32, uint32) {}, func(uint32, uint32) {})
	s.gpus.beginSampling()
	return s
}

// contents is what a log has of metrics.
type contents struct {
	sets    []*metriclog.Set
	samples map[uint32][]tracelog.Sample // by set
	lost    []tracelog.Lost
	users   []tracelog.GPUUser
}

// read closes the log and reads it.
func (r *recorder) read() contents {
	r.t.Helper()
	return closed(r.t, r.w, &r.log)
}

// closed closes a log and reads it.
func closed(t testing.TB, w *tracelog.Writer, log *bytes.Buffer) contents {
	t.Helper()
	must.Do(t, w.Close(tracelog.End{Time: 1, Complete: 1}))
	var sets metriclog.Sets
	for l := recordtest.InMemory(t, log.Bytes()); l.Next(); {
		sets.Take(l.Block())
	}
	c := contents{sets: sets.All(), samples: map[uint32][]tracelog.Sample{}}
	recordtest.Each(t, recordtest.InMemory(t, log.Bytes()), func(r tracelog.Record) {
		switch r := r.(type) {
		case *tracelog.Sample:
			c.samples[r.Set] = append(c.samples[r.Set], *r)
		case *tracelog.Lost:
			c.lost = append(c.lost, *r)
		case *tracelog.GPUUser:
			c.users = append(c.users, *r)
		}
	})
	return c
}

// A point is a value of a metric with its time.
type point struct {
	start, end uint64
	value      float64 // NaN: none
}

// series returns the values of a metric of a GPU.
func (c *contents) series(t *testing.T, uuid, name string) (points []point) {
	t.Helper()
	for _, set := range c.sets {
		i := slices.IndexFunc(set.Metrics, func(m metric.Metric) bool { return m.Name == name })
		if i < 0 || set.UUID != uuid {
			continue
		}
		for _, s := range c.samples[set.ID] {
			v, ok := set.Metrics[i].Value(s.Values[i])
			if !ok {
				v = math.NaN()
			}
			points = append(points, point{s.Start, s.Start + s.Dur, v})
		}
	}
	return points
}

// wait waits until a condition holds that the sampler brings about.
func wait(t *testing.T, s *Sampler, what string, holds func() bool) {
	t.Helper()
	must.Wait(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return holds()
	}, func() string { return "waited in vain until " + what })
}

// rowsOf waits until each set of a GPU has values of a time.
func rowsOf(t *testing.T, s *Sampler, uuid string, length time.Duration) {
	t.Helper()
	began := host.Monotonic()
	wait(t, s, "there are values", func() bool {
		for _, n := range s.gpus.all {
			if _, board := n.series[n.index*maxSets+2]; n.uuid == uuid && board && n.used {
				for number, m := range n.series {
					if number < countersSets && m.set.Interval > 5e7 && m.last < began+uint64(length) {
						return false
					}
				}
				return true
			}
		}
		return false
	})
}

// begin begins a recording of one process with a context on one GPU.
func begin(s *Sampler, pid, ordinal uint32) {
	s.Begin()
	s.Device(&tracelog.Device{PID: pid, ID: 0, UUID: uuidOf(0)})
	s.Device(&tracelog.Device{PID: pid, ID: 1, UUID: uuidOf(1)})
	s.Context(&tracelog.Context{PID: pid, Device: ordinal})
}

// Power is that of the simulation at each time, none is missing, and its sum is that of the simulation.
func checkPower(t *testing.T, c *contents, uuid string) {
	t.Helper()
	points := c.series(t, uuid, metric.NamePower)
	clocks := host.ReadClocks()
	var sum, truth float64
	for i, p := range points {
		real := p.end + clocks.Realtime - clocks.Monotonic
		step := (real + 10e6) / 20e6
		truth += float64(100 + step%100)
		sum += p.value
		if i > 0 && p.start != points[i-1].end && !slices.ContainsFunc(c.lost, func(l tracelog.Lost) bool { return l.To == p.start }) {
			t.Errorf("power has a gap at %d", p.start)
		}
	}
	if len(points) < 5 || sum != truth {
		t.Errorf("%d powers have the sum %g, want %g", len(points), sum, truth)
	}
}

// Two GPUs, in another order than CUDA's, of which the recorded process uses one: the log has that one, under
// its UUID, with the values of the simulation.
func TestSamples(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	s := Start(r.options("CUDASIM_DEVICES=2", "CUDASIM_NVML_NVLINK=1"))
	begin(s, 7, 1)
	rowsOf(t, s, uuidOf(1), 1500*time.Millisecond) // a busy machine skips readings
	s.End()
	c := r.read()
	checkPower(t, &c, uuidOf(1))
	for _, set := range c.sets {
		if set.UUID != uuidOf(1) || set.Device != 1 {
			t.Errorf("set %d is of GPU %d, %s", set.ID, set.Device, set.UUID)
		}
	}
	for name, want := range map[string]float64{
		metric.NameSMClock: 1980e6, metric.NameMemoryClock: 3201e6, metric.NameTemperature: 41, metric.NameMemoryTemperature: 46,
		metric.NameUtilization: 37, metric.NameMemoryUtilization: 12, metric.NameMemoryUsed: 1 << 30,
		metric.NameGPMPCIeTx: 2000 << 20, metric.NameGPMPCIeRx: 2100 << 20, metric.NameGPMNVLinkRx: 6000 << 20, metric.NameGPMNVLinkTx: 6100 << 20,
	} {
		points := c.series(t, uuidOf(1), name)
		for _, p := range points {
			if math.Abs(p.value-want) > want/1000 {
				t.Errorf("%s is %g, want %g", name, p.value, want)
			}
		}
		if len(points) < 2 {
			t.Errorf("%s has %d values", name, len(points))
		}
	}
	for _, p := range c.series(t, uuidOf(1), metric.NameGPMTensor) {
		if p.value < 5 || p.value > 14 {
			t.Errorf("tensor active is %g", p.value)
		}
	}
	for _, p := range c.series(t, uuidOf(1), metric.NameReasons) {
		if p.value != float64(metric.PowerCap) && p.value != 0 {
			t.Errorf("clock reasons are %g", p.value)
		}
	}
	if len(c.lost) > 0 && !testing.Verbose() {
		t.Logf("lost: %v", c.lost)
	}
	if !r.told("of processor time") {
		t.Errorf("notes are %q", r.notes)
	}
}

// An older GPU and an older driver: no GPM, and power with the other values.
func TestOlder(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	s := Start(r.options("CUDASIM_NVML_NO_GPM=1", "CUDASIM_NVML_NO_HISTORY=1"))
	begin(s, 7, 0)
	wait(t, s, "there are values", func() bool {
		n := s.gpus.all[0]
		return n != nil && n.used && n.series[0] != nil && n.series[0].last > 0
	})
	s.End()
	c := r.read()
	if len(c.sets) != 1 || len(c.series(t, uuidOf(0), metric.NamePower)) == 0 || len(c.series(t, uuidOf(0), metric.NameGPMTensor)) > 0 {
		t.Errorf("the log has %d sets", len(c.sets))
	}
}

// Readings that fail are lost with their time, single ones are missing values.
func TestFailing(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	s := Start(r.options("CUDASIM_NVML_FAIL=1", "CUDASIM_NVML_FAIL_FROM=2"))
	begin(s, 7, 0)
	isGPM := func(m metric.Metric) bool { return m.Name == metric.NameGPMTensor }
	ends := map[uint64]bool{} // of rows and gaps of GPM; 0 before the first
	wait(t, s, "GPM has a row behind the gap", func() bool {
		if n := s.gpus.all[0]; n != nil {
			for _, m := range n.series {
				if slices.ContainsFunc(m.set.Metrics, isGPM) {
					ends[m.last] = true
				}
			}
		}
		return len(ends) >= 4
	})
	s.End()
	c := r.read()
	points := c.series(t, uuidOf(0), metric.NameGPMTensor)
	if len(points) < 2 || points[1].start-points[0].end < 150e6 || !slices.ContainsFunc(c.lost, func(l tracelog.Lost) bool {
		return l.Cause == tracelog.LostGPUMetrics && l.From == points[0].end && l.To == points[1].start
	}) {
		t.Errorf("GPM has %v, lost is %v", points, c.lost)
	}
	missing := 0
	for _, p := range c.series(t, uuidOf(0), metric.NameSMClock) {
		if math.IsNaN(p.value) {
			missing++
		}
	}
	if missing != 1 || slices.ContainsFunc(c.series(t, uuidOf(0), metric.NameTemperature), func(p point) bool { return math.IsNaN(p.value) }) {
		t.Errorf("%d values of the SM clock are missing", missing)
	}
}

// Without the library, and with one that does not start, a note says so and nothing else happens.
func TestNoNVML(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ env, want string }{
		{"CUDASIM_NVML_INIT_ERROR=9", "GPU metrics are not sampled: NVML does not start: error 9 (Driver Not Loaded)"},
		{"", libraryName},
	} {
		r := newRecorder(t)
		o := r.options(c.env)
		if c.env == "" {
			if exec.Command("nvidia-smi").Run() == nil {
				continue // the library is here
			}
			o.environ = nil
		}
		s := Start(o)
		begin(s, 7, 0)
		<-s.board.over
		s.End()
		if got := r.read(); !r.told(c.want) || len(r.notes) != 1 || len(got.sets) > 0 {
			t.Errorf("notes are %q, sets %v", r.notes, got.sets)
		}
	}
}

// A GPU that is divided into instances is not sampled.
func TestMIG(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	s := Start(r.options("CUDASIM_NVML_MIG=1"))
	begin(s, 7, 0)
	wait(t, s, "the GPU is known", func() bool { return len(s.gpus.all) == 1 })
	s.End()
	if got := r.read(); !r.told("MIG") || len(got.sets) > 0 {
		t.Errorf("notes are %q, sets %v", r.notes, got.sets)
	}
}

// A process that is attached to has no records of CUPTI's: NVML's list of processes tells its GPU, and
// who else is there.
func TestUsers(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	const ours = 1 << 30 // no process has this PID
	r.known[ours] = true
	own := must.Get(os.Executable())(t)
	s := Start(r.options(fmt.Sprintf("CUDASIM_NVML_PID=%d", ours), fmt.Sprintf("CUDASIM_NVML_OTHER_PID=%d", os.Getpid())))
	s.Begin()
	rowsOf(t, s, uuidOf(0), 0)
	s.End()
	c := r.read()
	if len(c.sets) != 3 || c.sets[0].Device != tracelog.MetricNoDevice {
		t.Errorf("%d sets", len(c.sets))
	}
	if n := len(c.users); n != 2 || c.users[n-1].User != uint32(os.Getpid()) || c.users[n-1].UUID != uuidOf(0) ||
		c.users[n-1].Bytes != 512<<20 || c.users[n-1].Name != filepath.Base(own) || c.users[n-1].To < c.users[0].To {
		t.Errorf("users are %+v", c.users)
	}
}

// A sampler that is killed costs the rest of the metrics, which is said and counted.
func TestKilled(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	s := Start(r.options())
	begin(s, 7, 0)
	rowsOf(t, s, uuidOf(0), 0)
	must.Do(t, s.board.cmd.Process.Kill())
	<-s.board.over
	s.End()
	if c := r.read(); len(c.lost) == 0 || !r.told("missing: the sampler of GPU metrics has failed (it has ended): the log has no GPU metrics from here on") {
		t.Errorf("notes are %q, lost %v", r.notes, c.lost)
	}
}

// sanitized is the sampler's program, built with gcc's sanitizers: again only if a source has changed.
var sanitized = sync.OnceValues(func() ([]byte, error) {
	dir, err := filepath.Abs("../../build/gpumetrics-test")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	out, err := exec.Command("make", "-s", "-C", "sampler", "host", "OUT="+dir, "SANITIZE=address,undefined -fno-sanitize-recover=all").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return os.ReadFile(filepath.Join(dir, "sampler"))
})

func sanitizedProgram(t *testing.T) []byte {
	t.Helper()
	program, err := sanitized()
	if err != nil {
		t.Skipf("gcc has no sanitizers: %v", err)
	}
	return program
}

// The sampler has no fault that gcc's sanitizers find: a fault would end it with an exit code of its own.
func TestSanitized(t *testing.T) {
	t.Parallel()
	program := sanitizedProgram(t)
	for _, env := range []string{"CUDASIM_DEVICES=16", "CUDASIM_NVML_FAIL=3", "CUDASIM_NVML_NO_GPM=1", "CUDASIM_NVML_INIT_ERROR=9"} {
		r := newRecorder(t)
		o := r.options(env, "CUDASIM_NVML_PID=1", "CUDASIM_NVML_NVLINK=1")
		o.program = program
		o.All = true
		s := Start(o)
		begin(s, 7, 0)
		if env != "CUDASIM_NVML_INIT_ERROR=9" {
			wait(t, s, "there are values", func() bool { n := s.gpus.all[0]; return n != nil && n.series[0] != nil && n.series[0].last > 0 })
			s.mu.Lock()
			s.board.tell(orderStop, 0)
			s.board.tell(orderEnd, 0)
			s.mu.Unlock()
		}
		<-s.board.over
		<-s.board.exited
		if code := s.board.cmd.ProcessState.ExitCode(); code != 0 || r.told("failed") {
			t.Errorf("%s: exit code %d, notes %q", env, code, r.notes)
		}
		s.End()
	}
}

// gone waits for the end of a process.
func gone(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for began := time.Now(); time.Since(began) < limit; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 1000)
		if n == 1 {
			return
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			t.Fatal(err)
		}
	}
	t.Errorf("process %d lives", pid)
}

// The sampler ends when the recorder closes the socket.
func TestClosed(t *testing.T) {
	t.Parallel()
	s := Start(newRecorder(t).options())
	begin(s, 7, 0)
	rowsOf(t, s, uuidOf(0), 0)
	pid := s.board.cmd.Process.Pid
	s.mu.Lock()
	s.board.ended = true
	s.board.conn.Close()
	s.mu.Unlock()
	gone(t, pid)
}

// parent is a recorder that will be killed: it starts a sampler and prints its PID.
func parent() {
	w, err := tracelog.NewWriter(&bytes.Buffer{}, tracelog.Options{})
	if err != nil {
		panic(err)
	}
	s := Start(Options{Log: w, NextSet: func() uint32 { return 1 }, Known: func(uint32) bool { return true },
		Note: func(text string) { fmt.Println(text) }, Miss: func(text string) { fmt.Println(text) }, Remark: func(text string) { fmt.Println(text) }})
	<-s.board.launched
	fmt.Println(s.board.cmd.Process.Pid)
	select {}
}

// The sampler ends when the recorder is killed, even where it would not look at its socket.
func TestRecorderKilled(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "GPUMETRICS_TEST_PARENT=1", "LD_LIBRARY_PATH="+filepath.Dir(library(t)))
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	var pid int
	must.Get(fmt.Fscan(out, &pid))(t)
	must.Do(t, syscall.Kill(pid, syscall.SIGSTOP))
	must.Do(t, cmd.Process.Kill())
	gone(t, pid)
	_ = cmd.Wait() // it was killed
}

// Under sudo the sampler is the user's, in a session of its own, without further rights and files.
func TestSudo(t *testing.T) {
	t.Parallel()
	must.BeRoot(t)
	r := newRecorder(t)
	o := r.options()
	o.As = nobody
	s := Start(o)
	begin(s, 7, 0)
	rowsOf(t, s, uuidOf(0), 0)
	status := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", s.board.cmd.Process.Pid)))(t)
	for _, line := range []string{"Name:\tcudatrace-gpu\n", "Uid:\t65534\t65534\t65534\t65534\n", "Gid:\t65534\t65534\t65534\t65534\n", "CapEff:\t0000000000000000\n", "NoNewPrivs:\t1\n"} {
		if !bytes.Contains(status, []byte(line)) {
			t.Errorf("status lacks %q:\n%s", line, status)
		}
	}
	s.End()
	if c := r.read(); len(c.sets) != 3 {
		t.Errorf("%d sets, notes %q", len(c.sets), r.notes)
	}
}

// With root's rights the sampler loads no library that another user may have put there.
func TestForeignLibrary(t *testing.T) {
	t.Parallel()
	must.BeRoot(t)
	content := must.Get(os.ReadFile(library(t)))(t)
	for name, spoil := range map[string]func(folder, file string) error{
		"good":           func(string, string) error { return nil },
		"folder's owner": func(folder, _ string) error { return os.Chown(folder, 65534, 65534) },
		"folder's mode":  func(folder, _ string) error { return os.Chmod(folder, 0o1777) },
		"folder's group": func(folder, _ string) error { return errors.Join(os.Chown(folder, 0, 65534), os.Chmod(folder, 0o775)) },
		"file's owner":   func(_, file string) error { return os.Chown(file, 65534, 65534) },
		"file's mode":    func(_, file string) error { return os.Chmod(file, 0o777) },
		"way's owner":    func(folder, _ string) error { return os.Chown(filepath.Dir(folder), 65534, 65534) },
		"link to a user's": func(folder, file string) error {
			theirs := filepath.Join(filepath.Dir(folder), "theirs")
			return errors.Join(os.Rename(file, theirs), os.Chown(theirs, 65534, 65534), os.Symlink(theirs, file))
		},
		"user's link to root's file":   func(_, file string) error { return linkByUser(file) },
		"user's link to root's folder": func(folder, _ string) error { return linkByUser(folder) },
		"link of /proc": func(folder, _ string) error {
			return errors.Join(os.Rename(folder, folder+".moved"), os.Symlink("/proc/self/root"+folder+".moved", folder))
		},
	} {
		folder := filepath.Join(t.TempDir(), "lib")
		file := filepath.Join(folder, libraryName)
		must.Do(t, errors.Join(os.Mkdir(folder, 0o755), os.WriteFile(file, content, 0o755), spoil(folder, file)))
		env := environment([]string{"LD_LIBRARY_PATH=" + folder}, true)
		if got := strings.Contains(env[0], folder); got != (name == "good") {
			t.Errorf("%s: the environment is %q", name, env)
		}
	}
}

// linkByUser moves a file or a folder, and puts a link in its place that leads there by way of a user's link.
func linkByUser(path string) error {
	theirs := filepath.Join(filepath.Dir(filepath.Dir(path)), "theirs")
	link := filepath.Join(theirs, "link")
	return errors.Join(os.Rename(path, path+".moved"), os.Mkdir(theirs, 0o755), os.Symlink(path+".moved", link), os.Symlink(link, path),
		os.Lchown(link, 65534, 65534), os.Chown(theirs, 65534, 65534))
}

// Root's links to what only root can change are followed, and an access control list may let a user write.
func TestRootAlone(t *testing.T) {
	t.Parallel()
	must.BeRoot(t)
	folder := t.TempDir()
	file, link := filepath.Join(folder, "file"), filepath.Join(folder, "link")
	must.Do(t, errors.Join(os.WriteFile(file, nil, 0o664), os.Chmod(file, 0o664), os.Symlink("../"+filepath.Base(folder)+"//./file", link)))
	if !rootAlone(file) || !rootAlone(link) || !rootAlone(folder+"/") {
		t.Error("root's own is refused")
	}
	loop := filepath.Join(folder, "loop")
	must.Do(t, os.Symlink(loop, loop))
	if rootAlone(loop) || rootAlone(file+"/x") || rootAlone(filepath.Join(folder, "none")) || rootAlone("/tmp/") {
		t.Error("what is no file of root's is taken")
	}
	acl := []byte{2, 0, 0, 0}
	for _, e := range [][3]uint32{{1, 6, 1<<32 - 1}, {2, 6, 65534}, {4, 4, 1<<32 - 1}, {16, 6, 1<<32 - 1}, {32, 4, 1<<32 - 1}} {
		acl = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(acl, uint16(e[0])), uint16(e[1]))
		acl = binary.LittleEndian.AppendUint32(acl, e[2])
	}
	if err := unix.Setxattr(file, "system.posix_acl_access", acl, 0); err != nil {
		t.Skipf("no access control lists here: %v", err)
	}
	if rootAlone(file) {
		t.Error("a user may write to it")
	}
}

// A sampler that takes no orders is ended, and holds nobody up: one order waits, the others do not.
func TestDeaf(t *testing.T) {
	t.Parallel()
	s := Start(newRecorder(t).options())
	wait(t, s, "the GPU is known", func() bool { return len(s.gpus.all) == 1 })
	must.Do(t, s.board.cmd.Process.Signal(syscall.SIGSTOP))
	s.mu.Lock()
	orders := 0
	for ; !s.board.deaf && orders < 1e6; orders++ {
		s.board.tell(orderStop, 99)
	}
	deaf := s.board.deaf
	s.mu.Unlock()
	if !deaf {
		t.Errorf("a stopped sampler has taken %d orders", orders)
	}
	<-s.board.over
	s.End()
}

// A killed process whose call of the driver does not return holds nobody up.
func TestStuck(t *testing.T) {
	t.Parallel()
	p := newProcess()
	p.cmd = exec.Command("cat")
	must.Do(t, p.cmd.Start())
	p.conn = &net.UnixConn{}
	if took := p.remove(); took != 0 { // p.exited stays open, as that of such a process
		t.Errorf("it took %v", took)
	}
	_ = p.cmd.Wait() // it was killed
}
