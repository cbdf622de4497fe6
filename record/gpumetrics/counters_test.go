package gpumetrics

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/metric"
	"github.com/cudatrace/cudatrace/record/metriclog"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// folder is a folder of the simulated stack.
func folder(t testing.TB, name string) string {
	return filepath.Join(filepath.Dir(filepath.Dir(library(t))), name)
}

// counting are the options of a sampler with PM sampling on the simulated stack.
func (r *recorder) counting(pm PM, env ...string) Options {
	o := r.options(env...)
	o.environ = append(env, "LD_LIBRARY_PATH="+folder(r.t, "nvml")+":"+folder(r.t, "lib"))
	if pm.Rate == 0 {
		pm.Rate = RateDefault
	}
	o.PM = &pm
	return o
}

// counted waits until a GPU has samples of its counters up to so long after now.
func waitCounted(t *testing.T, s *Sampler, uuid string, length time.Duration) {
	t.Helper()
	began := host.Monotonic()
	wait(t, s, "there are samples", func() bool {
		for _, n := range s.gpus.all {
			for number, m := range n.series {
				if n.uuid == uuid && n.used && number >= countersSets && m.last >= began+uint64(length) {
					return true
				}
			}
		}
		return false
	})
}

// simulated are the numbers of metrics in the simulation, which follow that of the default set.
func simulated(name string) (number int, percent bool) {
	all := append(slices.Clone(DefaultMetrics), "sm__warps_active.avg.pct_of_peak_sustained_elapsed")
	return slices.Index(all, name), strings.Contains(name, "pct")
}

// truth is a metric's value in an interval of the simulation.
func truth(name string, step uint64) float64 {
	m, percent := simulated(name)
	if percent {
		return float64((7*uint64(m) + step) % 100)
	}
	return float64(m+1)*1e9 + float64(step%1000)*1e6
}

// checkCounters compares the samples of a GPU with the simulation: each interval has its values, and is in the log
// once, or is counted as lost. It returns how many intervals are lost.
func checkCounters(t *testing.T, c *contents, uuid string, rate, metrics int) (lost int) {
	t.Helper()
	i := slices.IndexFunc(c.sets, func(s *metriclog.Set) bool { return metric.Source(s.Source) == metric.PM && s.UUID == uuid })
	if i < 0 {
		t.Fatal("there are no samples of counters")
	}
	set, interval := c.sets[i], uint64(1e9)/uint64(rate)
	if set.Interval != interval || len(set.Metrics) != metrics {
		t.Errorf("the set has %d metrics every %d ns", len(set.Metrics), set.Interval)
	}
	step := func(at uint64) uint64 { return (at + interval/2) / interval }
	samples := c.samples[set.ID]
	gaps := map[uint64]uint64{}
	for _, l := range c.lost {
		gaps[l.From] = l.To
	}
	sum, want := make([]float64, metrics), make([]float64, metrics)
	for k, s := range samples {
		end := s.Start + s.Dur
		if s.Dur > interval+300 {
			t.Fatalf("sample %d is %d ns long", k, s.Dur)
		}
		if k > 0 {
			last := samples[k-1].Start + samples[k-1].Dur
			if s.Start > last && gaps[last] != s.Start || s.Start < last {
				t.Fatalf("sample %d starts %d ns after the end before it", k, s.Start-last)
			}
			lost += int(step(s.Start) - step(last))
		}
		for m := range set.Metrics {
			v, _ := set.Metrics[m].Value(s.Values[m])
			sum[m] += v
			want[m] += truth(set.Metrics[m].Name, step(end))
		}
	}
	for m := range sum {
		slack := 0.0
		if set.Metrics[m].Unit != metric.Percent {
			slack = want[m] / 1000
		}
		if math.Abs(sum[m]-want[m]) > slack || len(samples) == 0 {
			t.Errorf("the sum of %s over %d samples is %g, want %g", set.Metrics[m].Name, len(samples), sum[m], want[m])
		}
	}
	return lost
}

// PM sampling beside NVML and GPM: of two GPUs the one that is used, each interval once, with the simulation's values.
func TestCounters(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	s := Start(r.counting(PM{}, "CUDASIM_DEVICES=2", "CUDASIM_NVML_NVLINK=1"))
	begin(s, 7, 1)
	waitCounted(t, s, uuidOf(1), 300*time.Millisecond)
	s.End()
	c := r.read()
	if lost := checkCounters(t, &c, uuidOf(1), 1000, 14); lost > 0 {
		t.Logf("%d intervals are lost", lost)
	}
	for _, set := range c.sets {
		if set.UUID != uuidOf(1) || set.Device != 1 {
			t.Errorf("set %d is of GPU %d, %s", set.ID, set.Device, set.UUID)
		}
	}
	if len(c.sets) != 4 || !r.told("begins") || r.told("remark") || r.told("missing") {
		t.Errorf("%d sets, notes %q", len(c.sets), r.notes)
	}
}

// Of a GPU without a link the metrics of NVLink are left out, though CUPTI takes them: it would complete no sample.
func TestCountersMute(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		metrics []string
		count   int
		remark  string
	}{
		{"default", nil, 12, ""},
		{"named", []string{metric.NameTensor, metric.NameNVLinkRx}, 1, "remark: PM sampling of GPU-63756461-7369-6d2d-6465-766963652d00 leaves out nvlrx__bytes_data_user.sum.per_second"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRecorder(t)
			s := Start(r.counting(PM{Metrics: c.metrics}))
			begin(s, 7, 0)
			waitCounted(t, s, uuidOf(0), 100*time.Millisecond)
			s.End()
			got := r.read()
			checkCounters(t, &got, uuidOf(0), 1000, c.count)
			if !r.told(c.remark) || r.told("missing") {
				t.Errorf("notes are %q", r.notes)
			}
		})
	}
}

// A GPU that has none of the named metrics is not sampled.
func TestCountersAllMute(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	s := Start(r.counting(PM{Metrics: []string{metric.NameNVLinkRx}}))
	begin(s, 7, 0)
	wait(t, s, "PM sampling is refused", func() bool { return s.gpus.all[0] != nil && s.gpus.all[0].counted == countedRefused })
	s.End()
	r.read()
	if !r.told("remark: PM sampling does not start for GPU-63756461-7369-6d2d-6465-766963652d00: a GPU of type GH100 has none of the metrics") {
		t.Errorf("notes are %q", r.notes)
	}
}

// Each of CUPTI's traps costs what it has to, and no more: what is lost is counted with its time, the rest is right.
func TestCountersTraps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		env   string
		rate  int
		lossy bool
	}{
		{"fast", "", 10000, false},
		{"counters that become free", "CUDASIM_PM_BUSY=3", 1000, false},
		{"the shorter block of CUDA 12.6", "CUDASIM_CUPTI_VERSION=24", 1000, false},
		{"counter data image full", "CUDASIM_PM_IMAGE=40", 1000, true},
		{"hardware's buffer full", "CUDASIM_PM_OVERFLOW=3", 2000, true},
		{"a first sample of another clock", "CUDASIM_PM_STRANGE=1", 1000, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRecorder(t)
			s := Start(r.counting(PM{Rate: c.rate}, c.env, "CUDASIM_NVML_NVLINK=1"))
			begin(s, 7, 0)
			length := 400 * time.Millisecond
			if c.lossy {
				length *= 4 // on a busy machine few readings fall into a time, and the third one loses something
			}
			waitCounted(t, s, uuidOf(0), length)
			s.End()
			got := r.read()
			lost := checkCounters(t, &got, uuidOf(0), c.rate, 14)
			if c.lossy && lost == 0 || r.told("missing") || r.told("remark") {
				t.Errorf("%d intervals are lost, notes %q", lost, r.notes)
			}
		})
	}
}

// oldCUPTI is a folder with a libcupti that has no function that is needed.
func oldCUPTI(t *testing.T) string {
	t.Helper()
	dir := withDriver(t)
	must.Run(t, exec.Command("gcc", "-shared", "-nostdlib", "-Wl,-soname,libcupti.so.13", "-x", "c", "-o", filepath.Join(dir, "libcupti.so.13"), "/dev/null"))
	return dir
}

// withDriver is a new folder with the simulated libcuda alone.
func withDriver(t *testing.T) string {
	t.Helper()
	driver, err := os.ReadFile(filepath.Join(folder(t, "lib"), "libcuda.so.1"))
	dir := filepath.Join(t.TempDir(), "driver")
	must.Do(t, errors.Join(err, os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "libcuda.so.1"), driver, 0o644)))
	return dir
}

// A recording that ends before the first sample says so.
func TestCountersTooLate(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	s := Start(r.counting(PM{}, "CUDASIM_PM_BUSY=1000000"))
	begin(s, 7, 0)
	wait(t, s, "PM sampling starts", func() bool { return s.gpus.all[0] != nil && s.gpus.all[0].used && s.gpus.all[0].counted != countedNot })
	s.End()
	// A slow machine may get the sampler's own reason.
	if lines := slices.DeleteFunc(r.notes, func(n string) bool { return !strings.HasPrefix(n, "remark: PM sampling") }); len(lines) != 1 {
		t.Errorf("lines are %q", lines)
	}
}

// Which GPUs had no samples at the end: those that were used, and of which no other line speaks.
func TestUncounted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gpu gpu
		say bool
	}{
		"not yet asked": {gpu{used: true}, true},
		"starting":      {gpu{used: true, counted: countedStarted}, true},
		"has samples":   {gpu{used: true, counted: countedBegun}, false},
		"refused":       {gpu{used: true, counted: countedRefused}, false},
		"not used":      {gpu{counted: countedStarted}, false},
		"MIG":           {gpu{used: true, device: device{mig: true}}, false},
	} {
		r := newRecorder(t)
		g := newGPUs(r.counting(PM{}), nil, nil)
		g.begun, g.all[0] = true, &c.gpu
		g.uncounted()
		if r.told("had not begun when recording ended: its start takes") != c.say {
			t.Errorf("%s: %q", name, r.notes)
		}
	}
}

// Without NVML one line says so, also where PM sampling has failed before.
func TestCountersFailedBeforeNVML(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	o := r.counting(PM{})
	s := &Sampler{options: o, board: newProcess(), gpus: newGPUs(o, nil, nil)}
	s.countersFailed(noRights, "error 35")
	s.fail(s.board, failure{text: "no NVML"})
	s.Begin()
	if !slices.Equal(r.notes, []string{"remark: GPU metrics are not sampled: no NVML"}) {
		t.Errorf("notes are %q", r.notes)
	}
}

// Where there is no PM sampling, one line says why and what helps, and the values of GPM are there.
func TestCountersRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, env, folder, want string }{
		{"busy", "CUDASIM_PM_BUSY=1000000", "lib", "for " + nvmlUUID(0) + ": another process uses the GPU's counters"},
		{"rights", "CUDASIM_PM_INIT_ERROR=35", "lib", "RmProfilingAdminOnly): load the module nvidia with NVreg_RestrictProfilingToAdminUsers=0, or record as root"},
		{"rights of the GPU", "CUDASIM_PM_ENABLE_ERROR=25", "lib", "RmProfilingAdminOnly"},
		{"old GPU", "CUDASIM_PM_ENABLE_ERROR=27", "lib", "GPUs of compute capability 8.6 or later can (cuptiPmSamplingEnable: error 27 (CUPTI_ERROR_NOT_SUPPORTED))"},
		{"old CUPTI", "", "old", "is found (libcupti.so.13 has no function cuptiActivityRegisterTimestampCallback)"},
		{"no libcupti", "", "driver", "no libcupti of CUDA 12.6 or later is found"},
		{"another failure", "CUDASIM_PM_INIT_ERROR=999", "lib", "cuptiProfilerInitialize: error 999 (CUPTI_ERROR_UNKNOWN)"},
		{"buffer that is always full", "CUDASIM_PM_BUFFER=1", "lib", "cuptiPmSamplingDecodeData: error 8"},
		{"another clock", "CUDASIM_PM_STRANGE=1000000", "lib", "for " + nvmlUUID(0) + ": its samples have times of another clock"},
		{"no driver", "", "empty", "CUDA does not start in the sampler (libcuda.so.1: cannot open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRecorder(t)
			o := r.counting(PM{}, c.env)
			cupti := folder(t, c.folder)
			switch c.folder {
			case "old":
				cupti = oldCUPTI(t)
			case "driver":
				cupti = withDriver(t)
			case "empty":
				if exec.Command("nvidia-smi").Run() == nil {
					t.Skip("the driver is here")
				}
			}
			o.environ = []string{c.env, "LD_LIBRARY_PATH=" + folder(t, "nvml") + ":" + cupti}
			s := Start(o)
			begin(s, 7, 0)
			wait(t, s, "a line says so", func() bool { return r.told("remark: ") })
			rowsOf(t, s, uuidOf(0), 0)
			s.End()
			got := r.read()
			lines := slices.DeleteFunc(r.notes, func(n string) bool { return !strings.HasPrefix(n, "remark: ") })
			if len(lines) != 1 || !strings.Contains(lines[0], c.want) || !strings.HasSuffix(lines[0], "the log has the values of GPM and NVML instead, every 200 ms") {
				t.Errorf("lines are %q, want %q", lines, c.want)
			}
			if len(got.series(t, uuidOf(0), metric.NameGPMSMActive)) == 0 || got.series(t, uuidOf(0), metric.NameSMActive) != nil {
				t.Errorf("the log has %d sets", len(got.sets))
			}
		})
	}
}

// Without NVML one line says that there is nothing: CUPTI cannot tell who uses a GPU.
func TestCountersWithoutNVML(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	s := Start(r.counting(PM{}, "CUDASIM_NVML_INIT_ERROR=9"))
	begin(s, 7, 0)
	<-s.board.over
	s.End()
	const want = "remark: GPU metrics are not sampled: NVML does not start: error 9 (Driver Not Loaded)"
	if c := r.read(); len(c.sets) > 0 || len(r.notes) != 1 || r.notes[0] != want {
		t.Errorf("notes are %q", r.notes)
	}
}

// Metrics that a person names are sampled as far as they fit one pass, in their order; the others are named.
func TestCountersSet(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	const alone, unknown, passes = "sm__warps_active.avg.pct_of_peak_sustained_elapsed", "sm__none.sum", "lts__throughput.avg.pct_of_peak_sustained_elapsed"
	s := Start(r.counting(PM{Metrics: []string{metric.NameTensor, unknown, passes, metric.NameDRAMRead, alone}}))
	begin(s, 7, 0)
	waitCounted(t, s, uuidOf(0), 0)
	s.End()
	c := r.read()
	checkCounters(t, &c, uuidOf(0), 1000, 2)
	if !r.told("remark: PM sampling of " + nvmlUUID(0) + " leaves out " + strings.Join([]string{unknown, passes, alone}, ", ") + ": ") {
		t.Errorf("notes are %q", r.notes)
	}
}

// A process of PM sampling that is killed takes nothing else with it; the time that is missing is counted.
func TestCountersKilled(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	s := Start(r.counting(PM{}))
	begin(s, 7, 0)
	waitCounted(t, s, uuidOf(0), 0)
	must.Do(t, s.counters.process.cmd.Process.Kill())
	<-s.counters.process.over
	wait(t, s, "NVML goes on", func() bool {
		last := uint64(0)
		for number, m := range s.gpus.all[0].series {
			if number < countersSets && m.set.Interval > 5e7 {
				last = max(last, m.last)
			} else if number >= countersSets && last <= m.last {
				return false
			}
		}
		return true
	})
	s.End()
	c := r.read()
	checkCounters(t, &c, uuidOf(0), 1000, 12)
	samples := c.series(t, uuidOf(0), metric.NameTensor)
	last := samples[len(samples)-1].end
	if !slices.ContainsFunc(c.lost, func(l tracelog.Lost) bool { return l.From == last && l.To > last }) ||
		!r.told("missing: the sampler of PM sampling has failed (it has ended): the log has the values of GPM and NVML instead, every 200 ms, from here on") {
		t.Errorf("notes are %q, lost %v", r.notes, c.lost)
	}
}

// When both processes have been killed, the last line says that nothing comes any more.
func TestBothKilled(t *testing.T) {
	t.Parallel()
	for _, firstIsBoard := range []bool{true, false} {
		r := newRecorder(t)
		s := Start(r.counting(PM{}))
		begin(s, 7, 0)
		waitCounted(t, s, uuidOf(0), 0)
		order := []*samplerProcess{s.counters.process, s.board}
		lines := []string{
			"PM sampling has failed (it has ended): the log has the values of GPM and NVML instead, every 200 ms, from here on",
			"GPU metrics has failed (it has ended): the log has no GPU metrics from here on",
		}
		if firstIsBoard {
			order = []*samplerProcess{s.board, s.counters.process}
			lines = []string{
				"GPU metrics has failed (it has ended): the log has no values of NVML and GPM from here on",
				"PM sampling has failed (it has ended): the log has no GPU metrics from here on",
			}
		}
		for _, p := range order {
			must.Do(t, p.cmd.Process.Kill())
			<-p.over
		}
		s.End()
		for _, line := range lines {
			if !r.told("missing: the sampler of " + line) {
				t.Errorf("board first %v: notes are %q, without %q", firstIsBoard, r.notes, line)
			}
		}
	}
}

// A libcupti that is found only beside a recorded process's libraries is used from then on.
func TestCountersLater(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	o := r.counting(PM{Libraries: []string{"/nonexistent/libcupti.so.13"}})
	o.environ = []string{"LD_LIBRARY_PATH=" + folder(t, "nvml") + ":" + withDriver(t)}
	s := Start(o)
	begin(s, 7, 0)
	s.Offer(uint32(os.Getpid()), []string{filepath.Join(folder(t, "lib"), "libcupti.so.13")})
	s.Begin()
	waitCounted(t, s, uuidOf(0), 0)
	s.End()
	c := r.read()
	checkCounters(t, &c, uuidOf(0), 1000, 12)
}

// With root's rights no libcupti is loaded that another user may have put there, or that has such a library beside it.
func TestForeignCUPTI(t *testing.T) {
	t.Parallel()
	must.BeRoot(t)
	for name, spoil := range map[string]func(folder, file string) error{
		"good":           func(string, string) error { return nil },
		"folder's owner": func(folder, _ string) error { return os.Chown(folder, 65534, 65534) },
		"file's owner":   func(_, file string) error { return os.Chown(file, 65534, 65534) },
		"file's mode":    func(_, file string) error { return os.Chmod(file, 0o666) },
		"way's owner":    func(folder, _ string) error { return os.Chown(filepath.Dir(folder), 65534, 65534) },
		"its helper":     func(folder, _ string) error { return foreign(filepath.Join(folder, "libnvperf_host.so")) },
		"dangling helper": func(folder, _ string) error {
			return os.Symlink("/proc/nothing", filepath.Join(folder, "libnvperf_target.so"))
		},
		"link to a user's": func(_, file string) error {
			return errors.Join(foreign(file+".theirs"), os.Remove(file), os.Symlink(file+".theirs", file))
		},
	} {
		folder := filepath.Join(t.TempDir(), "lib")
		file := filepath.Join(folder, "libcupti.so.2099.1")
		must.Do(t, errors.Join(os.Mkdir(folder, 0o755), os.WriteFile(file, nil, 0o644), spoil(folder, file)))
		if got := slices.Contains(usableLibraries([]string{file}, true), file); got != (name == "good") {
			t.Errorf("%s: it is loaded: %v", name, got)
		}
		if !slices.Contains(usableLibraries([]string{file}, false), file) {
			t.Errorf("%s: a user may not load it", name)
		}
	}
	if got := usableLibraries([]string{"relative/libcupti.so.13", "/a:b/libcupti.so.13"}, false); len(got) != 0 {
		t.Errorf("usable are %q", got)
	}
}

// A user's sampler loads nothing of another user's process, or of one in a container, unless root put it there.
func TestForeignProcess(t *testing.T) {
	t.Parallel()
	o := Options{As: nobody}
	if o.trusts(uint32(os.Getpid())) || (&Options{}).trusts(0) || !(&Options{}).trusts(uint32(os.Getpid())) {
		t.Error("users are mixed up")
	}
	must.BeRoot(t)
	for name, how := range map[string]*syscall.SysProcAttr{
		"alike": {}, "mounts": {Cloneflags: syscall.CLONE_NEWNS},
	} {
		cmd := exec.Command("cat")
		cmd.SysProcAttr = how
		input, err := cmd.StdinPipe()
		must.Do(t, errors.Join(err, cmd.Start()))
		if got := (&Options{}).trusts(uint32(cmd.Process.Pid)); got != (name == "alike") {
			t.Errorf("%s: it is trusted: %v", name, got)
		}
		if err := errors.Join(input.Close(), cmd.Wait()); err != nil {
			t.Error(err)
		}
	}
}

// foreign makes a file of another user.
func foreign(path string) error {
	return errors.Join(os.WriteFile(path, nil, 0o644), os.Chown(path, 65534, 65534))
}

// The metrics that GPUs have, with the passes that they need.
func TestList(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	lists, err := list(r.counting(PM{}, "CUDASIM_DEVICES=2"))
	if err != nil || len(lists) != 1 || lists[0].UUID != uuidOf(0) || len(lists[0].Metrics) != 16 {
		t.Fatalf("%v, %v", lists, err)
	}
	for _, m := range lists[0].Metrics {
		want := 1
		switch {
		case strings.HasPrefix(m.Name, "lts__throughput"):
			want = 4
		case strings.HasPrefix(m.Name, "nvl"):
			want = 0 // there is no link
		}
		if m.Passes != want {
			t.Errorf("%s needs %d passes, want %d", m.Name, m.Passes, want)
		}
	}
	if _, err := list(r.counting(PM{}, "CUDASIM_DEVICES=0")); err == nil || !strings.Contains(err.Error(), "cuInit: error 100") {
		t.Errorf("without a GPU: %v", err)
	}
}

// Together the GPUs have no more samples than one process decodes.
func TestCountersCeiling(t *testing.T) {
	t.Parallel()
	r := newRecorder(t)
	o := r.counting(PM{Rate: 5000})
	o.complete()
	var orders []uint32
	g := newGPUs(o, func(uint32, uint32) {}, func(_, device uint32) { orders = append(orders, device) })
	g.beginSampling()
	for i := range 3 {
		d := device{index: uint32(i), uuid: uuidOf(i)}
		must.Do(t, errors.Join(g.found(d, false), g.found(d, true)))
	}
	for i := range 3 {
		g.context(uuidOf(i), uint32(i))
	}
	if len(orders) != 2 || !r.told("remark: PM sampling leaves out "+nvmlUUID(2)+": the sampler decodes 12000 samples a second") {
		t.Errorf("orders %v, notes %q", orders, r.notes)
	}
}

func TestCheckMetrics(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		names string
		want  string
	}{
		{strings.Join(DefaultMetrics, ","), ""},
		{"sm__cycles_active", "add an ending like"},
		{"sm__cycles_active.sum,sm__cycles_active.sum", "named twice"},
		{"a b.sum", "no name"}, {"", "no name"}, {strings.Repeat("x", 96) + ".sum", "no name"},
		{strings.Repeat("x.sum,", 30), "at most 24"},
	} {
		err := CheckMetrics(strings.Split(c.names, ","))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.names, err, c.want)
		}
	}
	for name, want := range map[string]metric.Metric{
		metric.NameSMClockPM:               {Label: "SM clock", Unit: metric.Hertz, Kind: metric.Rate},
		metric.NameDRAMRead:                {Label: "DRAM read", Unit: metric.BytesPerSec, Kind: metric.Rate},
		"dram__bytes.sum":                  {Unit: metric.Bytes, Kind: metric.Rate},
		"sm__inst_executed.sum":            {Unit: metric.Count, Kind: metric.Rate},
		"sm__inst_executed.avg.per_second": {Unit: metric.CountPerSec, Kind: metric.Rate},
		"smsp__inst.avg.per_cycle_active":  {Unit: metric.Count, Kind: metric.Level, Scale: 1000},
		"l1tex__hit_rate.pct":              {Unit: metric.Percent, Kind: metric.Percentage},
	} {
		want.Name = name
		if want.Label == "" {
			want.Label = name
		}
		if got, ok := pmMetric(name); !ok || got != want {
			t.Errorf("%s is %+v, want %+v", name, got, want)
		}
	}
	for rate, ok := range map[int]bool{99: false, 100: true, 10000: true, 10001: false} {
		if (CheckRate(rate) == nil) != ok {
			t.Errorf("%d Hz: %v", rate, CheckRate(rate))
		}
	}
}

// The part of the sampler that samples counters has no fault that gcc's sanitizers find.
func TestCountersSanitized(t *testing.T) {
	t.Parallel()
	program := sanitizedProgram(t)
	for _, env := range []string{"CUDASIM_PM_OVERFLOW=2", "CUDASIM_PM_IMAGE=3", "CUDASIM_PM_BUSY=1"} {
		r := newRecorder(t)
		o := r.counting(PM{Rate: 2000}, env, "ASAN_OPTIONS=detect_leaks=0")
		o.program = program
		s := Start(o)
		begin(s, 7, 0)
		waitCounted(t, s, uuidOf(0), 0)
		s.mu.Lock()
		p := s.counters.process
		p.tell(orderStop, 0)
		p.tell(orderEnd, 0)
		s.mu.Unlock()
		<-p.over
		<-p.exited
		if code := p.cmd.ProcessState.ExitCode(); code != 0 || r.told("failed") {
			t.Errorf("%s: exit code %d, notes %q", env, code, r.notes)
		}
		s.End()
	}
}

// What waits for the first use of a GPU is bounded by what was asked for, not by what the sampler says.
func TestHeld(t *testing.T) {
	t.Parallel()
	g, r, _ := orders(t, func(o *Options) { o.PM = &PM{Rate: 10000} })
	give(t, g, deviceMessage(0, 0), deviceMessage(1, 0))
	g.beginSampling()
	for i := range uint32(2) {
		must.Do(t, g.found(device{index: i, uuid: uuidOf(int(i))}, true))
	}
	nvml := set{number: 1, source: uint32(metric.NVML), names: []string{"power"}, interval: 1}
	pm := set{number: countersSets, source: uint32(metric.PM), names: []string{metric.NameTensor}, interval: 1}
	other := pm
	other.number++
	must.Do(t, errors.Join(g.set(nvml, false), g.set(pm, true)))
	if g.set(other, true) == nil {
		t.Error("a GPU has two sets of PM sampling")
	}
	for number, s := range g.all[0].series {
		if s.most != heldMax {
			t.Errorf("set %d: %d rows may be held", number, s.most)
		}
	}
	remarks := len(r.notes)
	if err := g.set(pm, true); err != nil || len(r.notes) != remarks {
		t.Errorf("%v, notes %q", err, r.notes)
	}
	g.context(uuidOf(0), 0)
	if n := g.all[0]; n.counted != countedStarted || n.held(true, g.options.PM) != 150_000 {
		t.Errorf("it is %v, %d rows may be held", n.counted, n.held(true, g.options.PM))
	}
	if err := errors.Join(g.refused(refused{device: 0}), g.refused(refused{device: 0})); err == nil {
		t.Error("it is refused twice")
	}
}
